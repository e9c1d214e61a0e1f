package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stopTimeout is how long an orderly end may take before the server is killed.
const stopTimeout = 30 * time.Second

// errStopped is what Restart says of a server whose files are gone.
var errStopped = errors.New("the server has been stopped for good")

// Server is what Postgres and Redis have in common: one running server that can
// be stopped, killed, frozen and restarted. Its methods are safe for concurrent
// use. The zero value is not usable.
type Server struct {
	name     string
	as       account
	dir      *tempDir
	log      io.Writer
	onDeath  syscall.Signal   // an orderly end, also the parent-death signal
	network  string           // "tcp"; "": a Unix socket
	socket   string           // the address to connect to
	ready    string           // what it prints when it is ready, in lower case
	command  func() *exec.Cmd // a new command for each start
	onRemove []io.Closer

	life    sync.Mutex // one of Stop, Halt, Kill and Restart at a time
	removed bool       // guarded by life
	proc    atomic.Pointer[process]
}

// newServer makes the server's temporary directory; remove undoes that.
func newServer(name string, log io.Writer, as account) (*Server, error) {
	dir, err := newTempDir(as)
	if err != nil {
		return nil, err
	}
	s := &Server{name: name, as: as, dir: dir, log: log}
	if log == nil {
		file, err := os.OpenFile(dir.join("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, errors.Join(err, s.remove())
		}
		s.log = file
		s.onRemove = append(s.onRemove, file)
	}
	return s, nil
}

// newCmd prepares a program that runs as the server's user, with next to
// nothing in its environment, and that holds the locks as long as it lives.
func (s *Server) newCmd(locks []*os.File, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir.join("run")
	cmd.Env = []string{"LC_ALL=" + serverLocale, "PATH=/usr/bin:/bin", "TZ=UTC"}
	cmd.ExtraFiles = locks
	cmd.SysProcAttr = sysProcAttr(s.onDeath, s.as.credential())
	return cmd
}

// start returns when the server can be connected to. Unless it returns nil,
// the server is not running.
func (s *Server) start(ctx context.Context) error {
	out := newOutput(s.log, s.ready)
	p, err := startProcess(s.command(), out)
	if err != nil {
		return err
	}
	s.proc.Store(p)
	select {
	case <-out.ready:
		err = s.dial(ctx)
	case <-p.done:
		return fmt.Errorf("it ended before it was ready (%s); its last lines:\n%s", p.cmd.ProcessState, out.Tail())
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		p.kill()
		<-p.done
	}
	return err
}

func (s *Server) dial(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, cmp.Or(s.network, "unix"), s.socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Stop ends the server in order, waits until nothing of it runs, and removes
// what was temporary; a given data directory stays. Calls after the first do
// nothing. A server that takes over 30 seconds is killed, and that is an error.
func (s *Server) Stop() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.removed {
		return nil
	}
	return errors.Join(s.halt(), s.remove())
}

// Halt ends the server in order and waits, like Stop, but keeps its files for
// Restart. It does nothing to a server that has ended.
func (s *Server) Halt() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.halt()
}

// Kill ends the server and all its processes by SIGKILL, as a crash would, and
// waits until they are gone. Its files stay for Restart, until Stop.
func (s *Server) Kill() error {
	s.life.Lock()
	defer s.life.Unlock()
	p := s.proc.Load()
	p.kill()
	<-p.done
	return nil
}

// Restart halts the server if it runs, and starts it on the same files and the
// same address, waiting until it is ready. An error leaves it not running. It
// is an error after Stop.
func (s *Server) Restart(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.removed {
		return fmt.Errorf("restarting %s: %w", s.name, errStopped)
	}
	if err := s.halt(); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restarting %s: %w", s.name, err)
	}
	return nil
}

// Pause freezes the server: it keeps its connections and answers nothing, until
// Resume, Halt, Kill or Stop. It is an error if the server has ended.
func (s *Server) Pause() error {
	if err := s.proc.Load().pause(); err != nil {
		return fmt.Errorf("pausing %s: %w", s.name, err)
	}
	return nil
}

// Resume lets a paused server go on. It is an error if the server has ended.
func (s *Server) Resume() error {
	if err := s.proc.Load().resume(); err != nil {
		return fmt.Errorf("resuming %s: %w", s.name, err)
	}
	return nil
}

// Done returns a channel that is closed when the server, with every process it
// forked, has ended. A Restart begins a new channel.
func (s *Server) Done() <-chan struct{} { return s.proc.Load().done }

// Err says why the server ended by itself, quoting its last lines. It is nil
// while the server runs, and after an end that was asked for here.
func (s *Server) Err() error {
	p := s.proc.Load()
	if !p.ended() || p.asked.Load() {
		return nil
	}
	return fmt.Errorf("%s ended (%s); its last lines:\n%s", s.name, p.cmd.ProcessState, p.out.Tail())
}

// PID returns the server's process id, in the newest start.
func (s *Server) PID() int { return s.proc.Load().cmd.Process.Pid }

func (s *Server) halt() error {
	p := s.proc.Load()
	if p == nil || p.ended() {
		return nil
	}
	p.asked.Store(true)
	_ = p.resume() // a paused one would not see the signal
	_ = p.cmd.Process.Signal(s.onDeath)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.kill()
		<-p.done
		return fmt.Errorf("stopping %s: still running after %v, killed", s.name, stopTimeout)
	}
}

func (s *Server) remove() error {
	s.removed = true
	for _, closer := range s.onRemove {
		_ = closer.Close()
	}
	if err := s.dir.remove(); err != nil {
		return fmt.Errorf("removing the files of %s: %w", s.name, err)
	}
	return nil
}
