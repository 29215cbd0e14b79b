//go:build unix

package worker

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// end is how a process ended.
type end struct {
	status syscall.WaitStatus
	err    error // it is not known, because another part of this program waited for the process
}

// start starts the process. Package os/exec would look again for variables that are given twice, and have a handle of
// the process, which is useless if its group is signalled. That and the guard's table take 0.03 ms off a run of a short
// process.
func (p *process) start(cmd *exec.Cmd) error {
	var files [3]uintptr
	for i, f := range [...]any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		files[i] = f.(*os.File).Fd()
	}
	pid, _, err := syscall.StartProcess(cmd.Path, cmd.Args, &syscall.ProcAttr{
		Dir: cmd.Dir, Env: cmd.Env, Files: files[:], Sys: cmd.SysProcAttr,
	})
	runtime.KeepAlive(cmd) // its files
	if err != nil {
		return &os.PathError{Op: "fork/exec", Path: cmd.Path, Err: err}
	}
	p.id = pid
	return nil
}

// wait waits until the process has ended.
func (p *process) wait(*exec.Cmd) {
	_, err := syscall.Wait4(p.id, &p.end.status, 0, nil)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(p.id, &p.end.status, 0, nil)
	}
	p.end.err = os.NewSyscallError("wait4", err)
}

// code returns the exit code. For a process that a signal ended it is 128 + the signal's number, as in a shell.
func (p *process) code() int {
	switch sig, killed := p.signal(); {
	case killed:
		return 128 + int(sig)
	case p.end.err != nil:
		return -1
	}
	return p.end.status.ExitStatus()
}

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
	if errors.Is(syscall.Kill(-id, 0), syscall.ESRCH) {
		return false // usually nobody is left, not even a zombie
	}
	for {
		pid, err := syscall.Wait4(-id, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
	}
	return !errors.Is(syscall.Kill(-id, 0), syscall.ESRCH) && !onlyZombies(id)
}

// signal returns the signal that ended the process, if one did.
func (p *process) signal() (syscall.Signal, bool) {
	sig := p.end.status.Signal() // a number below 0: no signal did
	return max(sig, 0), p.end.err == nil && sig >= 0
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
