package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// taskWay is the way of tasks to the workers in other processes. A task may get lost there: the worker has left, or its
// report that it begins is not answered, or the process with the engine dies meanwhile.
type taskWay struct {
	random
	u         *universe
	promised  map[uint64]bool     // the secrets of tasks whose worker has promised to report that it has the task
	givenBack map[core.Token]bool // somebody reports that the attempt has not begun
	reported  map[core.Token]bool // and has done so
}

// How long a process waits for a report: that the work begins, and any at all of an attempt that it has kept.
const (
	startWithin = 10 * time.Second
	hearWithin  = 90 * time.Second
)

// newTaskWay uses its own random numbers, so that universes without remote workers do not change.
func newTaskWay(u *universe) *taskWay {
	return &taskWay{
		random: newRandom(u.seed, 0x3a4e), u: u, promised: map[uint64]bool{}, givenBack: map[core.Token]bool{},
		reported: map[core.Token]bool{},
	}
}

// send sends a task to its worker. After a lost attempt the worker gets it only when its beginning is saved.
func (y *taskWay) send(wt *workerTask) {
	if !wt.task.Announce {
		y.arrive(wt)
		return
	}
	tok, n := wt.task.Token, wt.w.n
	length := y.between(0, 5*time.Millisecond)
	if !y.u.noFaults {
		length = y.span(time.Microsecond, 10*time.Second)
	}
	y.u.after(0, "an attempt is announced", func() {
		if !wt.revoked {
			n.report(tok.Run, core.Beat{Step: tok.Step, Attempt: tok.Attempt})
		}
	})
	y.u.after(length, "a task may have its beginning saved", func() {
		switch {
		case wt.over || wt.w.dead || wt.revoked || !y.u.checker.hasAttempt(tok):
		case y.u.checker.announced(tok):
			y.arrive(wt)
		default:
			y.send(wt)
		}
	})
}

// announced reports whether it is saved that an attempt begins.
func (ch *checker) announced(tok core.Token) bool {
	s := &ch.accounts[tok.Run].model.steps[tok.Step]
	return s.losses.row == 0 || s.beat != 0 || s.output != 0
}

// arrive lets a task arrive at its worker, or get lost before.
func (y *taskWay) arrive(wt *workerTask) {
	u, n := y.u, wt.w.n
	where := y.Float64()
	switch {
	case u.noFaults || where > 0.12:
		wt.begin()
	case where > 0.08: // its worker has left
		y.giveBack(wt, 0, func(in core.Input) { n.report(wt.task.Token.Run, in) })
	case where > 0.04 && y.promised[wt.task.Secret]: // its worker never says that it begins
		y.giveBack(wt, startWithin, func(in core.Input) { n.report(wt.task.Token.Run, in) })
	default: // its worker hears no answer, and says to whoever has the engine then that it does not begin
		wt.begun = true
		y.giveBack(wt, y.span(time.Millisecond, time.Minute), func(in core.Input) { wt.toOwner(in) })
	}
}

// giveBack ends an attempt that does not begin, and reports that after a while.
func (y *taskWay) giveBack(wt *workerTask, after time.Duration, report func(core.Input)) {
	tok := wt.task.Token
	wt.end()
	if y.u.opt.KeepNotBegun {
		return
	}
	y.givenBack[tok] = true
	y.u.after(after, "a task that did not arrive is given back", func() {
		if wt.revoked {
			wt.silent = true // if the process dies before it reports the stop, nobody has the task
			return
		}
		y.reported[tok] = true
		report(core.TaskEnded{Step: tok.Step, Attempt: tok.Attempt, Failure: &policy.Failure{
			Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the task did not arrive",
		}})
	})
}

// missing handles an attempt that a process keeps without knowing its worker: its task was lost on its way, or the
// worker is going to repeat the report of its end. If its worker has promised to report, the process must notice that.
// Else only the limits of the attempt do, or the end of all faults.
func (y *taskWay) missing(w *workers, t core.Task) *workerTask {
	if !y.u.checker.announced(t.Token) {
		y.u.violate(NoHang, t.Token.Run, "attempt %s is kept, and had yet to announce itself", tokenText(t.Token))
	}
	wt := &workerTask{
		task: t, group: y.u.checker.groupOf(t.Token), begun: true, over: true, missing: true,
		silent: !y.promised[t.Secret],
	}
	if !t.Confirms {
		return wt
	}
	silent := &policy.Failure{Kind: policy.KindLost, Type: "worker_silent", Message: simulatedFailure}
	end := core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt, Failure: silent}
	y.u.after(hearWithin, "a process has heard nothing of an attempt", func() {
		if w.tasks[t.Token] == wt && !wt.revoked {
			w.n.report(t.Token.Run, end)
		}
	})
	return wt
}

// mayNotBegin reports whether an attempt of a remote worker may end because it has not begun.
func (y *taskWay) mayNotBegin(tok core.Token) bool {
	return y.givenBack[tok] || !y.u.checker.announced(tok)
}
