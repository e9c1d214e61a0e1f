package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// group is a command in a process group of its own.
type group struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the command itself has ended
}

// startGroup starts the command with this process's own standard streams. Its
// errors have the exit codes of a shell's.
//
// The kernel sends the parent-death signal when the thread that forked ends, so
// that thread is kept until the command has ended.
func startGroup(args, env []string) (*group, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.SysProcAttr = env, ownGroup()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	g := &group{cmd, make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // see code
			close(g.ended)
		}
	}()
	switch err := <-started; {
	case err == nil:
		return g, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, &exitError{127, err}
	default:
		return nil, &exitError{126, err}
	}
}

// signal signals all of the group; there may be nobody left.
func (g *group) signal(s syscall.Signal) { _ = syscall.Kill(-g.cmd.Process.Pid, s) }

// alive reports whether anything of the group is left.
func (g *group) alive() bool { return syscall.Kill(-g.cmd.Process.Pid, 0) == nil }

// code is the command's exit code, as a shell tells it.
func (g *group) code() int {
	if status, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return g.cmd.ProcessState.ExitCode()
}
