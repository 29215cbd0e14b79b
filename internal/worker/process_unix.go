//go:build unix

package worker

import (
	"errors"
	"os"
	"syscall"
)

// askGroup asks the group to stop. SIGCONT wakes suspended processes, which would not get SIGTERM otherwise.
func askGroup(p *process) {
	signalGroup(p, syscall.SIGTERM)
	signalGroup(p, syscall.SIGCONT)
}

func killGroup(p *process) { signalGroup(p, syscall.SIGKILL) }

// signalGroup signals the group. As long as the leader was not waited for, or a member lives, the system does not give
// the group's number to another group. If neither holds there is nothing to signal. Between the check and the signal
// the number could become free, but the system does not use it again so soon.
func signalGroup(p *process, sig syscall.Signal) {
	if p.hasExited() && !groupLives(p.id) {
		return
	}
	_ = syscall.Kill(-p.id, sig) // fails if the group is gone, which is fine
}

// groupLives reports whether a group has members left after its leader was waited for. If this process is the machine's
// first process or a subreaper, it is the parent of orphans now and waits for the dead ones here.
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

// signal returns the signal that ended the process, if one did.
func (p *process) signal() (syscall.Signal, bool) {
	status, ok := p.state.Sys().(syscall.WaitStatus)
	if !ok {
		return 0, false
	}
	sig := status.Signal() // -1: none
	return max(sig, 0), sig >= 0
}

// readNow reads what a pipe holds, also after its deadline. It returns 0 if the pipe is empty.
func readNow(f *os.File, b []byte) (n int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { // fails if the pipe is closed: there is nothing to read then
		for n, err = syscall.Read(int(fd), b); errors.Is(err, syscall.EINTR); {
			n, err = syscall.Read(int(fd), b)
		}
	})
	return max(n, 0)
}
