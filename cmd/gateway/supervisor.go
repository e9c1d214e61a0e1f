package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// supervisor is who started the gateway and wants to be told how it is: systemd with
// Type=notify, or what speaks its protocol. nil: nobody.
type supervisor struct {
	conn  *net.UnixConn
	every time.Duration // it wants a sign of life; 0: it doesn't
	log   *slog.Logger
}

// What a supervisor is told.
const (
	tellReady     = "READY=1"
	tellReloading = "RELOADING=1"
	tellStopping  = "STOPPING=1"
	tellAlive     = "WATCHDOG=1"
)

func findSupervisor(log *slog.Logger) (*supervisor, error) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil, nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("reaching the supervisor of NOTIFY_SOCKET: %w", err)
	}
	return &supervisor{conn: conn, every: watchdogPause(), log: log}, nil
}

// watchdogPause is half of the time after which the supervisor gives this process up.
func watchdogPause() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros < 1 {
		return 0
	}
	return max(time.Duration(micros)*time.Microsecond/2, time.Millisecond)
}

func (s *supervisor) tell(state string) {
	if s == nil {
		return
	}
	if _, err := s.conn.Write([]byte(state)); err != nil {
		s.log.Warn("the supervisor could not be told", "state", state, "error", err)
	}
}

// keepTelling gives signs of life until ctx ends, and returns nil. They say that this
// process runs, not that it is ready: a restart mends no database.
func (s *supervisor) keepTelling(ctx context.Context) error {
	if s == nil || s.every == 0 {
		return nil
	}
	ticks := time.NewTicker(s.every)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			s.tell(tellAlive)
		case <-ctx.Done():
			return nil
		}
	}
}
