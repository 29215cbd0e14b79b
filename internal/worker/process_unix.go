//go:build unix

package worker

import (
	"errors"
	"os"
	"syscall"
)

// askGroup asks the group to go. What is suspended is woken, else it would not hear of it.
func askGroup(p *process) {
	signalGroup(p, syscall.SIGTERM)
	signalGroup(p, syscall.SIGCONT)
}

func killGroup(p *process) { signalGroup(p, syscall.SIGKILL) }

// signalGroup signals the group. Its number cannot belong to another group as long as the leader has not been waited
// for or a member lives; when neither is so there is nobody to signal, and numbers are not given out again within the
// moment between looking and signalling.
func signalGroup(p *process, sig syscall.Signal) {
	if p.hasExited() && !groupLives(p.id) {
		return
	}
	_ = syscall.Kill(-p.id, sig) // who is gone need not be told
}

// groupLives reports whether the group of a leader that was waited for has members left. Orphans that came to this
// process, because it is the machine's first or a subreaper, are waited for on the way.
func groupLives(id int) bool {
	for {
		pid, err := syscall.Wait4(-id, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
	}
	if err := syscall.Kill(-id, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	return !onlyZombies(id)
}

// signal is the signal that ended the process.
func (p *process) signal() (syscall.Signal, bool) {
	status, ok := p.state.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, false
	}
	sig := status.Signal() // -1: none
	return max(sig, 0), sig >= 0
}

// readNow reads what a pipe holds, whatever its deadline; 0: nothing.
func readNow(f *os.File, b []byte) (n int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { // a closed one holds nothing
		for n, err = syscall.Read(int(fd), b); errors.Is(err, syscall.EINTR); {
			n, err = syscall.Read(int(fd), b)
		}
	})
	return max(n, 0)
}
