package main

import (
	"errors"
	"os"
	"os/signal"
)

// exitCutOff is the exit code of a gateway that a second signal ended before it had
// finished. It is not death by that signal, which systemd takes for a good end.
const exitCutOff = 3

var errCutOff = errors.New("a second signal: ended at once, requests in flight are cut off")

// unlessCutOff returns what act does, or errCutOff at a second signal to stop, with
// act left where it is.
func unlessCutOff(act func() error) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, heeded(os.Interrupt)...)
	defer signal.Stop(signals)
	ended := make(chan error, 1)
	go func() { ended <- act() }()
	for met := 0; met < 2; {
		select {
		case err := <-ended:
			return err
		case <-signals:
			met++
		}
	}
	return &exitError{exitCutOff, errCutOff}
}
