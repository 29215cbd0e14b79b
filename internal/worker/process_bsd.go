//go:build unix && !linux

package worker

import (
	"os/exec"
	"syscall"
)

// prepare gives the command a process group of its own.
func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// onlyZombies cannot be found out here. It is not needed either: the first process of these systems waits for orphans.
func onlyZombies(int) bool { return false }
