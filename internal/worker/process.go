package worker

import (
	"os/exec"
	"runtime"
	"time"
)

// process is a running command that leads its own process group.
type process struct {
	id      int           // the id of the process and of its group
	exited  chan struct{} // closed when the process has ended
	end     end           // set before exited is closed
	stopped bool          // the worker stopped it; it did not end on its own
	rest    bool          // it ended on its own, and processes that it had started in the background were killed
	killed  bool          // and had to kill it, because it had not ended when its grace was over
}

// startProcess starts a command. The goroutine that starts it also waits for it, on the same locked thread. Linux sends
// a process the death signal when the thread that started it ends, not when the parent process does, and the Go runtime
// may end a thread at any time. The waiting goroutine would occupy a thread anyway.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.start(cmd)
		started <- err
		if err != nil {
			return
		}
		p.wait(cmd)
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) hasExited() bool { return isClosed(p.exited) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// processGroup is the processes of one attempt: the group, and the processes with the attempt's marks that left it.
type processGroup struct {
	leader *process
	marks  marks
}

func (g processGroup) exited() <-chan struct{} { return g.leader.exited }

// ask asks each process once: for many programs a second SIGTERM means that they should no longer clean up.
func (g processGroup) ask() {
	askGroup(g.leader)
	for _, pid := range marked(g.marks.entries()) {
		if !inGroup(pid, g.leader.id) {
			askMarked(pid, g.marks.entries())
		}
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

// work is something that runs and can be stopped.
type work interface {
	exited() <-chan struct{} // closed when the leading process has ended
	ask()                    // asks it to stop
	kill()                   // may be called again
	gone() bool              // reports whether all of it has ended
}

// stopWork stops work in steps: ask, wait, kill, wait, and give up. It reports whether the work had to be killed, and
// whether it is gone.
func stopWork(w work, grace time.Duration) (killed, gone bool) {
	w.ask()
	if awaitGone(w, grace, nil) {
		return false, true
	}
	w.kill()
	return true, awaitGone(w, max(grace, minKillWait), w.kill)
}

// killRest kills the rest of work whose leading process has ended. It reports whether the work is gone.
func killRest(w work) bool {
	if w.gone() {
		return true
	}
	w.kill()
	return awaitGone(w, minKillWait, w.kill)
}

// awaitGone checks until the work is gone, at growing intervals. A check reads the list of all processes, so the
// interval is at least ten times as long as the check took. After each check that finds processes it calls again, which
// kills the ones that were started since.
func awaitGone(w work, limit time.Duration, again func()) bool {
	if isClosed(w.exited()) && w.gone() { // mostly there is nothing to wait for
		return true
	}
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
