package worker

import (
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a running command that leads a process group of its own.
type process struct {
	id      int // of the process and its group
	exited  chan struct{}
	state   *os.ProcessState // when exited is closed
	stopped bool             // it did not end by itself
}

// startProcess starts a command. The goroutine that starts it waits for it on the same locked thread: the signal that
// a process gets when its parent dies is in truth sent when the parent's thread does, and the runtime ends threads as
// it likes. Waiting would hold a thread anyway.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.id = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // what it says is in the state
		p.state = cmd.ProcessState
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// code is the exit code, or 128 + the number of the signal that ended the process, as shells count.
func (p *process) code() int {
	if sig, killed := p.signal(); killed {
		return 128 + int(sig)
	}
	return p.state.ExitCode()
}

// processGroup is the processes of one attempt: the group, and those with the attempt's marks that left it.
type processGroup struct {
	leader *process
	marks  marks
}

func (g processGroup) exited() <-chan struct{} { return g.leader.exited }

func (g processGroup) ask() {
	askGroup(g.leader)
	for _, pid := range marked(g.marks.entries()) {
		askMarked(pid, g.marks.entries())
	}
}

func (g processGroup) kill() {
	killGroup(g.leader)
	for _, pid := range marked(g.marks.entries()) {
		killMarked(pid, g.marks.entries())
	}
}

func (g processGroup) gone() bool {
	return g.leader.hasExited() && !groupLives(g.leader.id) && len(marked(g.marks.entries())) == 0
}

// work is what the kill ladder stops.
type work interface {
	exited() <-chan struct{} // closed when its main part is gone
	ask()                    // to go
	kill()                   // may be called again
	gone() bool              // all of it
}

// climb is the ladder: ask, wait, kill, wait, and give up. It reports whether the work is gone.
func climb(w work, grace time.Duration) bool {
	w.ask()
	if awaitGone(w, grace, nil) {
		return true
	}
	w.kill()
	return awaitGone(w, max(grace, minKillWait), w.kill)
}

// sweep kills what is left of work whose main part is gone.
func sweep(w work) bool {
	if w.gone() {
		return true
	}
	w.kill()
	return awaitGone(w, minKillWait, w.kill)
}

// awaitGone looks at the work until it is gone, less and less often, and never so that looking takes more than a tenth
// of the time: it reads the list of processes. Again is called between the looks, for what was forked meanwhile.
func awaitGone(w work, limit time.Duration, again func()) bool {
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-w.exited():
	case <-over.C:
		return false
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		began := time.Now()
		if w.gone() {
			return true
		}
		next := time.NewTimer(max(pause, 10*time.Since(began)))
		select {
		case <-next.C:
		case <-over.C:
			next.Stop()
			return w.gone()
		}
		if again != nil {
			again()
		}
	}
}
