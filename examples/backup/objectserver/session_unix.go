//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownSession lets the server outlive the process group of whoever started it.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
