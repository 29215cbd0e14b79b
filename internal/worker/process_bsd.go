//go:build unix && !linux

package worker

import (
	"os"
	"os/exec"
	"syscall"
)

// prepare gives the command a process group of its own.
func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// onlyZombies cannot be found out here. It is not needed either: the first process of these systems waits for orphans.
func onlyZombies(int) bool { return false }

// newGuardTable makes a file without a name.
func newGuardTable() (*os.File, error) {
	f, err := os.CreateTemp("", "pawl-guard-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}
