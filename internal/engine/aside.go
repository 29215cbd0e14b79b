package engine

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// A run is set aside where nobody can say what it would do next: its code (a definition's decider, an expression, the
// fold, the codec) panicked, or its definition cannot be compiled. It stands still, its callers are told why, and the
// others go on. What it did before is saved; of the input that panicked nothing is. The next owner of the partition,
// perhaps a version without the bug, tries again.

// panicked is a panic of one run's code.
type panicked struct {
	doing string // "it took core.TaskEnded of step 3, attempt 1"
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("its code panicked while %s: %v", p.doing, p.value)
}

// guard calls fn, which does something with one run, and returns a panic of it as an error.
func guard(doing string, fn func()) (err error) {
	defer catchPanic(doing, nil, &err)
	fn()
	return nil
}

// caught turns a panic into an error. It is to be deferred. in is the input that the run took; nil: it took none.
func catchPanic(doing string, in core.Input, err *error) {
	if v := recover(); v != nil {
		*err = &panicked{doing: doing + describeInput(in), value: v, stack: debug.Stack()}
	}
}

// described names an input without its payload, which belongs in no log. It must not keep the input: where it did, every
// input would have to be put on the heap.
func describeInput(in core.Input) string {
	if in == nil {
		return ""
	}
	text := " " + reflect.TypeOf(in).String()
	switch in := in.(type) {
	case core.TaskStarted:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.TaskEnded:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.TaskStopped:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.ChildEnded:
		text += fmt.Sprintf(" of step %d, attempt %d", in.Step, in.Attempt)
	case core.Operation:
		text += fmt.Sprintf(" %s, step %d", in.Op, in.Step)
	default:
	}
	return text
}

// aside is the error of a run that was set aside.
type aside struct {
	run core.RunID
	err error
	// unseen is the row of a run that the view does not have; nil: it has one. told: that row says why it stands still,
	// or will with the next batch.
	missingRow *journal.RunRow
	inView     bool
}

func (a *aside) Error() string { return "the run is set aside: " + a.err.Error() }

func (a *aside) Unwrap() error { return a.err }

func isAside(err error) bool {
	var a *aside
	return errors.As(err, &a)
}

func isUnusable(err error) bool {
	var u *unusable
	return errors.As(err, &u)
}

// permanent reports whether a run cannot be used as long as this process lives.
func permanent(err error) bool {
	var bug *panicked
	return isAside(err) || isUnusable(err) || errors.As(err, &bug)
}

// setAside notes that a run stands still, and tells those who wait for it.
func (p *Partition) setAside(id core.RunID, err error) *aside {
	p.logAside("a run is set aside, the others go on", id, err)
	a := &aside{run: id, err: err}
	p.residents.aside[id] = a
	p.audience.fail(id, failure("result", id.String(), a))
	return a
}

func (p *Partition) logAside(what string, id core.RunID, err error) {
	args := []any{"run", id.String(), "error", err}
	if bug := (*panicked)(nil); errors.As(err, &bug) {
		args = append(args, "stack", string(bug.stack))
	}
	p.cfg.Log.Error(what, args...)
}

// stop sets a run in memory aside after a panic. Its state may be half of what an input would have made of it, so it is
// not used any more. What was recorded is written to the view with the next batch; that batch is the first one in which
// another run's doings can pass the run by.
func (p *Partition) setAsideAfterPanic(r *run, err error) error {
	if !r.recorded { // it was about to begin, and does not exist
		p.logAside("a run cannot begin", r.id(), err)
		return err
	}
	if r.aside != nil {
		return r.aside
	}
	r.aside = p.setAside(r.id(), err)
	r.aside.inView = true
	r.unrecovered = false
	p.tasks.withdrawRun(r)
	p.residents.wakes.remove(r)
	p.pipeline.rewriteRows(r, p.now)
	return r.aside
}

// takeUp goes on with a run that a predecessor had set aside: its row is written again, and the children whose end it has
// missed are asked for it.
func (p *Partition) resumeSetAside(r *run, entries []core.Entry) {
	p.pipeline.rewriteRows(r, p.now)
	children := make(map[core.StepID]core.RunID) // the last one of each step; the state forgets those that stop
	for _, e := range entries {
		for _, rec := range e.Records {
			if began, ok := rec.(core.AttemptStarted); ok && began.Child != (core.RunID{}) {
				children[began.Step] = began.Child
			}
		}
	}
	for i := range r.state.Steps {
		s := &r.state.Steps[i]
		id, begun := children[s.ID]
		if !begun || (s.Phase.Closed() && !s.Stopping) {
			continue
		}
		p.send(core.Message{To: id, Content: core.ChildAsk{}})
	}
}

// rewrite puts a run's rows into the next batch. Of a run that was set aside the steps' rows stay as they are.
func (l *pipeline) rewriteRows(r *run, now core.Time) {
	if r.aside != nil {
		r.rows.steps = nil
	} else {
		r.rows.touchAll(r.state)
	}
	l.view.markBehind(r, l.open.seq, 0, now)
	l.view.urgent = append(l.view.urgent, r)
}
