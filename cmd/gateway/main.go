// Command gateway is fencegate: the fenced write gateway and its tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

// run returns the exit code: 0 well, 1 not, or what the command says.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), heeded(os.Interrupt)...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := newRoot().ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errSaid) {
		fmt.Fprintln(os.Stderr, "gateway:", err)
	}
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		return exit.code
	}
	if err != nil {
		return 1
	}
	return 0
}

// heeded returns SIGTERM and those signals that the program was not started to
// ignore, as by nohup or a script's &: asking for one would undo that.
func heeded(signals ...os.Signal) []os.Signal {
	// SIGTERM Go never ignores; and no signal at all would stand for every one.
	return append(slices.DeleteFunc(signals, signal.Ignored), syscall.SIGTERM)
}

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// errSaid is returned by commands that have told the user already what is wrong.
var errSaid = errors.New("said")

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gateway",
		Short: "A fenced write gateway in front of PostgreSQL",
		Long: "fencegate takes writes over HTTP and lets only the current holder of a lock commit:\n" +
			"a worker that was paused past its lease is refused, nothing it sent is applied,\n" +
			"and the refusal is on record.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newServe(), newCheck(), newDoctor(), newHealthcheck(), newMigrate(), newProtect(), newDev(), newDemo(), newLease(), newAudit(), newAuth(), newVersion())
	return root
}
