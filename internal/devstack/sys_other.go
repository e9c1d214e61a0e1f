//go:build !linux

package devstack

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// serverLocale is the one that every system has.
const serverLocale = "C"

// sysProcAttr puts a child in a process group of its own, so that Ctrl-C in the
// terminal reaches only the parent. There is no parent-death signal here.
func sysProcAttr(_ syscall.Signal, credential *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: credential}
}

// childrenOf lists the direct children of pid. PostgreSQL puts each in a
// session of its own, so that signalling the process group would miss them.
func childrenOf(pid int) []int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output() // exit 1: none
	var children []int
	for _, field := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

func removeSharedMemory(string) {}
