//go:build unix

package worker

import (
	"io"
	"os/exec"
	"syscall"
)

// guardScript ends process groups when the end of its input comes while attempts are open. Where the system shows the
// environment of processes, it also ends those that left their group and have kept the mark, its first argument. It
// looks again as long as it finds some, because they may have started others.
const guardScript = `
trap "" HUP INT QUIT TERM TSTP
open=0 groups=" "
while read -r word group; do
	case $word in
	begin) open=$((open + 1)) ;;
	group) groups="$groups$group " ;;
	end) open=$((open - 1)) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
	failed) open=$((open - 1)) ;;
	esac
done
[ "$open" -gt 0 ] || exit 0
for group in $groups; do
	kill -s KILL -- "-$group"
done
[ -r /proc/self/environ ] || exit 0
for round in 1 2 3 4 5 6 7 8 9 10; do
	found=
	for file in $(grep -lsF -- "PAWL_OWNER=$1" /proc/[0-9]*/environ); do
		process=${file#/proc/}
		kill -s KILL "${process%/environ}" && found=1
	done
	[ "$found" ] || exit 0
done
`

// guardShell is a running guard.
type guardShell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// startGuardShell starts a guard in a session of its own: what ends the worker's group or its terminal does not end it.
func startGuardShell(mark string) (*guardShell, error) {
	cmd := &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", guardScript, "pawl-guard", mark},
		Env: []string{"PATH=" + defaultPath}, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &guardShell{cmd: cmd, in: in}, nil
}

func (s *guardShell) tell(line string) error {
	_, err := io.WriteString(s.in, line+"\n")
	return err
}

// close lets the shell end and waits for that.
func (s *guardShell) close() {
	_ = s.in.Close()
	_ = s.cmd.Wait()
}
