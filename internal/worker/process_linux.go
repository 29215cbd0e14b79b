package worker

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// prepare gives the command a session of its own, and makes it die with the thread that starts it. The session has no
// terminal: a program that asks there for a password fails at once. In the session of the terminal it would be stopped,
// since it is in the background there.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// outputPipe makes a pipe whose write end is for a process. os.Pipe prepares both ends for the Go runtime, which costs
// more system calls than the pipe itself, and a process needs an end that blocks.
func outputPipe() (r, w *os.File, err error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_ = syscall.SetNonblock(ends[0], true) // never fails for a pipe
	return os.NewFile(uintptr(ends[0]), "|0"), os.NewFile(uintptr(ends[1]), "|1"), nil
}

// onlyZombies reports whether all processes of the group are dead. Dead orphans stay listed if the machine's first
// process does not wait for them, as in many containers.
func onlyZombies(group int) bool {
	for _, pid := range processes() {
		if s, ok := statusOf(pid); ok && s.group == group && s.state != 'Z' && s.state != 'X' {
			return false
		}
	}
	return true
}

// processes lists the ids of all processes.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

type processStatus struct {
	state         byte
	parent, group int
}

// statusOf reads /proc/<pid>/stat: pid (name) state parent group … The name may contain any character, so it reads from
// the last parenthesis on.
func statusOf(pid int) (processStatus, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return processStatus{}, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 3 {
		return processStatus{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	return processStatus{fields[0][0], parent, group}, err1 == nil && err2 == nil
}

// environmentOf returns the environment that a process was started with. It returns nil if the process is gone, is a
// zombie, or belongs to another user.
func environmentOf(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(data) == 0 {
		return nil
	}
	var entries []string
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		entries = append(entries, string(entry))
	}
	return entries
}

// isMarked reports whether the environment of the process has all of the entries. An owner's mark also fits if a
// worker's suffix follows it.
func isMarked(pid int, entries []string) bool {
	env := environmentOf(pid)
	for _, e := range entries {
		isOwner := strings.HasPrefix(e, "PAWL_OWNER=")
		if !slices.ContainsFunc(env, func(own string) bool {
			return own == e || isOwner && strings.HasPrefix(own, e+".")
		}) {
			return false
		}
	}
	return len(entries) > 0
}

// marked lists the processes with these entries in their environment, except this process and its ancestors.
func marked(entries []string) []int {
	if len(entries) == 0 {
		return nil
	}
	own := ancestors()
	var found []int
	for _, pid := range processes() {
		if !slices.Contains(own, pid) && isMarked(pid, entries) {
			found = append(found, pid)
		}
	}
	return found
}

// ancestors lists this process, its parent, and so on up to the first process.
func ancestors() []int {
	var pids []int
	for pid := os.Getpid(); pid > 0; {
		pids = append(pids, pid)
		s, ok := statusOf(pid)
		if !ok {
			break
		}
		pid = s.parent
	}
	return pids
}

// inGroup reports whether a process is one of a group.
func inGroup(pid, group int) bool {
	of, err := syscall.Getpgid(pid)
	return err == nil && of == group
}

func askMarked(pid int, entries []string) {
	signalMarked(pid, entries, syscall.SIGTERM, syscall.SIGCONT)
}

func killMarked(pid int, entries []string) { signalMarked(pid, entries, syscall.SIGKILL) }

// signalMarked signals a process. The id may belong to another process by now, so it opens a handle first, checks the
// marks again, and signals through the handle.
func signalMarked(pid int, entries []string, signals ...syscall.Signal) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = p.Release() }()
	if !isMarked(pid, entries) {
		return
	}
	for _, sig := range signals {
		_ = p.Signal(sig) // fails if the process is gone, which is fine
	}
}
