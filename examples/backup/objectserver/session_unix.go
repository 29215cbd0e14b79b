//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownSession makes the server outlive the process group of the process that started it.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
