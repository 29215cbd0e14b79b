//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// apart keeps Ctrl-C in the terminal from a process.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
