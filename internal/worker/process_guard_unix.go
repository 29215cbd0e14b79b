//go:build unix

package worker

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// guardScript ends process groups when the end of its input comes while attempts are open: descriptor 3 is the file
// that lists them. If the system shows the environment of processes, it also ends those that left their group and have
// kept the mark, its first argument. It looks again as long as it finds some, because they may have started others. The
// second argument, if there is one, is a program that ends the containers with the label that is the third.
const guardScript = `
trap "" HUP INT QUIT TERM TSTP
while read -r line; do :; done
open= groups=
while read -r line; do
	case $line in
	"") ;;
	-) open=1 ;;
	*) open=1 groups="$groups $line" ;;
	esac
done <&3
[ "$open" ] || exit 0
for group in $groups; do
	kill -s KILL -- "-$group"
done
[ -z "$2" ] || "$2" ps --quiet --filter "label=$3" | while read -r container; do
	"$2" kill "$container"
done &
[ -r /proc/self/environ ] || wait
[ -r /proc/self/environ ] || exit 0
for round in 1 2 3 4 5 6 7 8 9 10; do
	found=
	for file in $(grep -lsF -- "PAWL_OWNER=$1" /proc/[0-9]*/environ); do
		process=${file#/proc/}
		kill -s KILL "${process%/environ}" && found=1
	done
	[ "$found" ] || break
done
wait
`

// guardShell is a running guard.
type guardShell struct {
	cmd   *exec.Cmd
	in    io.Closer   // nothing is written to it
	table *guardTable // the attempts that run
	asked time.Time   // when it was last looked at
	ended bool        // it has ended and was waited for
}

// guardAsked is how often the shell is looked at, at most: hardly ever does somebody end it.
const guardAsked = 10 * time.Millisecond

// startGuardShell starts a guard in a new session: whatever ends the worker's group or its terminal does not end it.
func startGuardShell(mark, containers string, env []string) (*guardShell, error) {
	table, err := newGuardTable()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: "/bin/sh",
		Args: []string{
			"sh", "-c", guardScript, "pawl-guard", mark, containers, labelProcess + "=" + containerProcess,
		},
		Env: append(env[:len(env):len(env)], "PATH="+defaultPath), Dir: "/", ExtraFiles: []*os.File{table.file},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		table.close()
		return nil, err
	}
	return &guardShell{cmd: cmd, in: in, table: table}, nil
}

func (s *guardShell) write(line int, text string) error { return s.table.write(line, guardText(text)) }

// hasEnded reports whether somebody has ended the shell, now or a moment ago.
func (s *guardShell) hasEnded() bool {
	if now := time.Now(); !s.ended && now.Sub(s.asked) >= guardAsked {
		s.asked = now
		pid, err := syscall.Wait4(s.cmd.Process.Pid, nil, syscall.WNOHANG, nil)
		s.ended = pid > 0 || errors.Is(err, syscall.ECHILD)
	}
	return s.ended
}

// close lets the shell end and waits for that.
func (s *guardShell) close() {
	_ = s.in.Close()
	_ = s.cmd.Wait() // its exit status does not matter
	s.table.close()
}
