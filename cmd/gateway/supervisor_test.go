package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// supervisor is the end of NOTIFY_SOCKET that systemd has.
type supervisor struct{ *net.UnixConn }

func newSupervisor(t *testing.T) (s supervisor, path string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fg-") // short: socket paths have a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "notify")
	if s.UnixConn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, path
}

// next returns what it is told next, but for signs of life, which it counts.
func (s supervisor) next(t *testing.T, alive *int) string {
	t.Helper()
	for {
		s.SetReadDeadline(time.Now().Add(time.Minute))
		buffer := make([]byte, 4096)
		n, err := s.Read(buffer)
		if err != nil {
			t.Fatalf("nothing is told: %v", err)
		}
		state := string(buffer[:n])
		if state != "WATCHDOG=1" {
			return state
		}
		if *alive++; *alive == 3 {
			return state
		}
	}
}

func TestTheSupervisorIsToldWhatHappens(t *testing.T) {
	t.Parallel()
	s, path := newSupervisor(t)
	g := testenv.StartGateway(t, testenv.GatewayOptions{Env: []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=100000"}})
	alive := 0
	want := func(expected string) {
		t.Helper()
		if state := s.next(t, &alive); state != expected {
			t.Fatalf("told %q, not %q", state, expected)
		}
	}
	want("READY=1")
	want("WATCHDOG=1") // and again
	g.Signal(t, syscall.SIGHUP)
	want("RELOADING=1")
	want("READY=1")
	bad := g.Options
	bad.Config = "nonsense: 1\n"
	g.Configure(t, bad)
	g.Signal(t, syscall.SIGHUP)
	want("RELOADING=1")
	want("READY=1") // as it was
	g.Signal(t, syscall.SIGTERM)
	want("STOPPING=1")
	if code := g.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestASupervisorThatIsNotThereIsAMistake(t *testing.T) {
	t.Parallel()
	cmd, _ := program(t, "serve", "--config", configFor(t, testenv.Postgres(t).URL, oneTable))
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET=/nowhere/notify")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "NOTIFY_SOCKET") {
		t.Errorf("%v: %s", err, out)
	}
}
