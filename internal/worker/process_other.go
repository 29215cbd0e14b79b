//go:build !unix

package worker

import (
	"os"
	"os/exec"
	"syscall"
)

// This system has no process groups. An attempt is one process, which can only be killed, not asked to stop.

func prepare(*exec.Cmd) {}

// end is how a process ended.
type end struct{ state *os.ProcessState }

func (p *process) start(cmd *exec.Cmd) error {
	err := cmd.Start()
	if err == nil {
		p.id = cmd.Process.Pid
	}
	return err
}

// wait waits until the process has ended.
func (p *process) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state has the result too
	p.end.state = cmd.ProcessState
}

func (p *process) code() int { return p.end.state.ExitCode() }

func askGroup(p *process) { killGroup(p) }

func killGroup(p *process) {
	if found, err := os.FindProcess(p.id); err == nil && !p.hasExited() {
		_ = found.Kill() // fails if the process is gone by now
	}
}

func groupLives(int) bool { return false }

func (p *process) signal() (syscall.Signal, bool) { return 0, false }

func readNow(*os.File, []byte) int { return 0 }
