//go:build unix && !linux

package worker

import (
	"os/exec"
	"syscall"
)

// prepare makes the command lead a group of its own.
func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// onlyZombies is not known here; the first process of these systems waits for orphans.
func onlyZombies(int) bool { return false }
