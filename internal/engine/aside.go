package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
)

// A run is set aside when its next step is undefined: its code (the decider, an expression, the fold, the codec)
// panicked, or its definition cannot be compiled. The run then stops and its callers learn why. The other runs go on.
//
// What the run did before is saved. Nothing of the input that panicked is saved. The next owner of the partition,
// perhaps a version without the bug, tries again.

// SetAside returns why a run is set aside, or nil if it is not.
func (p *Partition) SetAside(id core.RunID) error {
	if a := p.residents.aside[id]; a != nil {
		return a
	}
	return nil
}

// setAside sets a run aside and tells everyone who waits for it.
func (s *residents) setAside(id core.RunID, err error) *aside {
	s.logAside("a run is set aside, the others go on", id, err)
	a := &aside{run: id, err: err}
	s.aside[id] = a
	s.audience.fail(id, failure("result", id.String(), a))
	return a
}

func (s *residents) logAside(what string, id core.RunID, err error) {
	var stack []any
	if bug := (*panicked)(nil); errors.As(err, &bug) {
		stack = []any{"stack", string(bug.stack)}
	}
	s.cfg.Log.Error(what, append([]any{"id", "run-set-aside", "run", id.String(), "error", err}, stack...)...)
}

// setAsideAfterPanic sets a run in memory aside. A panic may have left its state half changed, so the state is no
// longer used.
//
// The next batch also writes the run's row, with the note that the run is set aside: the next owner then continues the
// run with the first window (see resumeSetAside). Until then messages for it are kept (see messages.keep). A closed run
// is taken up by nobody. Its row stays that of a closed run, and advance has made the rows of steps that the view does
// not have.
func (p *Partition) setAsideAfterPanic(r *run, err error) error {
	if !r.recorded { // its start panicked, so the run does not exist
		p.residents.logAside("a run cannot begin", r.id(), err)
		return err
	}
	if r.aside != nil {
		return r.aside
	}
	r.aside = p.residents.setAside(r.id(), err)
	r.aside.explained = true
	r.unrecovered = false
	p.tasks.withdrawRun(r)
	p.admissions.leaveQueue(r)
	p.residents.wakes.remove(r)
	p.pipeline.rewriteRows(r, p.now)
	return r.aside
}

// resumeSetAside continues a run that an earlier owner had set aside. It writes the run's rows again. It also asks the
// last child of each open step whether it has ended, and loses those that never began.
func (p *Partition) resumeSetAside(r *run, entries []core.Entry) {
	p.pipeline.rewriteRows(r, p.now)
	if r.rests {
		return // its children themselves tell it about their ends
	}
	children := make(map[core.StepID]core.RunID) // the last child of each step; the state forgets a child that stops
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
		switch {
		case s.Child != id && !s.Stopping: // a message that was kept has ended that attempt already
		case p.children.neverBegan(id):
			p.children.loseChild(r, s.ID, id)
		default:
			p.send(core.Message{To: id, Content: core.ChildAsk{}})
		}
	}
}

// rewriteRows puts all rows of a run into the next batch. If the run is set aside, its steps are not written again,
// because its state cannot be trusted.
func (l *pipeline) rewriteRows(r *run, now core.Time) {
	if r.aside != nil {
		r.rows.steps = nil
	} else {
		r.rows.touchAll(r.state)
	}
	l.view.markBehind(r, l.open.seq, 0, now)
	l.view.urgent = append(l.view.urgent, r)
}
