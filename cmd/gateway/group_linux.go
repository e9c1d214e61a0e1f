package main

import "syscall"

// ownGroup has the command killed when this process dies. That is the command
// alone: what it has started itself is not told.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
