package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// warningModel is the warning before one of a run's deadlines. It is given once. If an operation moves the deadline so
// far that the warning is in the future again, it is given again.
type warningModel struct {
	lead  time.Duration // how long before the deadline; zero if there is no warning
	given bool          // or it will not be given, because the deadline moved past it
}

// warnings are those before the run's deadlines.
type warnings struct{ execution, limit warningModel }

// create takes the warnings of a new run. A run that follows another one has its execution deadline, and the warning
// before that is given once for all of them.
func (w *warnings) create(m *runModel, rec core.RunCreated) {
	w.execution = warningModel{lead: rec.Execution.Lead, given: rec.Execution.Warn == 0}
	w.limit = warningModel{lead: rec.Deadline.Lead, given: rec.Deadline.At == 0}
	if before := m.ch.accounts[rec.Chain.Previous]; before != nil && before.model.execution == rec.Execution.At {
		w.execution.given = before.model.warnings.execution.given
	}
}

// moved takes in that a deadline has moved.
func (w *warningModel) moved(from, to, now core.Time) {
	switch {
	case from == to:
	case to == 0:
		w.given = true
	case to.Add(-w.lead) > now:
		w.given = false
	}
}

// due returns when the warning before a deadline must be given; zero: not, or it was.
func (w *warningModel) due(deadline core.Time) core.Time {
	if w.given || w.lead == 0 || deadline == 0 {
		return 0
	}
	return deadline.Add(-w.lead)
}

// warn checks a warning of the run.
func (m *runModel) warn(limit policy.LimitKind) {
	w, deadline := &m.warnings.limit, m.limit
	if limit == policy.LimitExecution {
		w, deadline = &m.warnings.execution, m.execution
	}
	if at := w.due(deadline); at == 0 || at > m.at {
		m.fail(DueOrder, "the run is warned of its %s limit, which ends at %s; given before: %t", limit,
			offset(deadline), w.given)
	}
	w.given = true
	m.ch.u.warned.pause(m.a.id)
}

// warningDue returns when the run's next warning must be given, zero if there is none.
func (m *runModel) warningDue() core.Time {
	if m.closed || m.runLimit() == 0 {
		return 0
	}
	return m.warnings.execution.due(m.execution).Earlier(m.warnings.limit.due(m.limit))
}

// warnedRuns is an operator who pauses runs with their clocks when they were warned of their deadline, in some
// universes. When a run goes on its deadline is later, and its warning was given.
type warnedRuns struct {
	random
	u      *universe
	active bool
}

// newWarnedRuns draws from numbers of its own, so that universes without such an operator stay as they are.
func newWarnedRuns(u *universe) *warnedRuns {
	w := &warnedRuns{random: newRandom(u.seed, 0x3a12), u: u}
	w.active = !u.opt.NoFaults && w.chance(0.6)
	return w
}

// pause pauses a run that was warned, and resumes it later.
func (w *warnedRuns) pause(run core.RunID) {
	if !w.active || w.u.noFaults {
		return
	}
	soon, long := w.span(time.Millisecond, time.Second), w.span(time.Millisecond, time.Minute)
	w.u.after(soon, "an operator pauses a run that was warned", func() {
		w.u.clients.operate(run, core.Operation{Op: core.OpPause, Step: core.NoStep, StopClock: true})
	})
	w.u.after(soon+long, "an operator resumes a run that was warned", func() {
		w.u.clients.operate(run, core.Operation{Op: core.OpResume, Step: core.NoStep})
	})
}
