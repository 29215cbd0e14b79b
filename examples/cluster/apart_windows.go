package main

import (
	"os/exec"
	"syscall"
)

// apart keeps Ctrl-C in the terminal from a process.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// serverUser changes nothing: only systems with root need another user.
func serverUser(string) (as func(*exec.Cmd), err error) { return func(*exec.Cmd) {}, nil }
