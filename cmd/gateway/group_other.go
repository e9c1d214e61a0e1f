//go:build !linux

package main

import "syscall"

// ownGroup can't have the command killed when this process dies: there is no
// parent-death signal here.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
