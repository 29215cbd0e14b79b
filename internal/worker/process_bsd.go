//go:build unix && !linux

package worker

import (
	"os"
	"os/exec"
	"syscall"
)

// prepare gives the command a session of its own, which has no terminal to ask at.
func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// onlyZombies returns false, because it cannot be found out here. It is not needed either: the first process of these
// systems waits for orphans.
func onlyZombies(int) bool { return false }

// guardTable is the guard's file. It has no name.
type guardTable struct{ file *os.File }

func newGuardTable() (*guardTable, error) {
	f, err := os.CreateTemp("", "pawl-guard-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return &guardTable{f}, nil
}

// write changes a line. It does not move the position from which the shell reads. Not all of these systems show writes
// to its memory in a file at once.
func (t *guardTable) write(line int, text [guardLine]byte) error {
	_, err := t.file.WriteAt(text[:], int64(line)*guardLine)
	return err
}

func (t *guardTable) close() { _ = t.file.Close() } // nobody reads it any longer
