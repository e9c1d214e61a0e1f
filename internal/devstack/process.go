package devstack

import (
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// process is one run of a program and everything that it forks.
type process struct {
	cmd   *exec.Cmd
	out   *output
	done  chan struct{} // closed when nothing of it is left
	err   error         // how it ended; read after done
	asked atomic.Bool   // its end was asked for
}

// startProcess starts cmd with both its outputs going to out. Setting up cmd's
// process group and parent-death signal is the caller's.
//
// The kernel sends the parent-death signal when the thread that forked ends, so
// that thread is kept for this one goroutine until the child is gone.
func startProcess(cmd *exec.Cmd, out *output) (*process, error) {
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{cmd: cmd, out: out, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// Wait also reads the output to its end, which comes when every
		// child that inherited it has gone too.
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process and its children at once. Stopping the parent first
// keeps the list of children true: it can neither fork nor reap meanwhile.
func (p *process) kill() {
	if p.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return // gone already
	}
	p.asked.Store(true)
	for _, child := range childrenOf(p.cmd.Process.Pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	_ = p.cmd.Process.Kill()
}

// pause stops the process, parent first, and its children.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for _, child := range childrenOf(p.cmd.Process.Pid) {
		_ = syscall.Kill(child, syscall.SIGSTOP)
	}
	return nil
}

// resume undoes pause; it changes nothing for a process that runs.
func (p *process) resume() error {
	for _, child := range childrenOf(p.cmd.Process.Pid) {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
