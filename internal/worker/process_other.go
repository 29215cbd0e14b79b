//go:build !unix

package worker

import (
	"os"
	"os/exec"
	"syscall"
)

// Without process groups an attempt is one process, and it cannot be asked, only killed.

func prepare(*exec.Cmd) {}

func askGroup(p *process) { killGroup(p) }

func killGroup(p *process) {
	if found, err := os.FindProcess(p.id); err == nil && !p.hasExited() {
		_ = found.Kill() // it may be gone by now
	}
}

func groupLives(int) bool { return false }

func (p *process) signal() (syscall.Signal, bool) { return 0, false }

func readNow(*os.File, []byte) int { return 0 }
