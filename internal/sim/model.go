package sim

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// runModel is the checker's own idea of a run, folded from the records with as little as possible of what core thinks.
type runModel struct {
	b *book
	a *account

	created, closed    bool
	pending            bool // its start is delayed
	closing, cancelled bool
	paused             core.Time
	stopClock          bool
	startAt            core.Time
	execution, limit   core.Time // the stored deadlines
	limitAfter         bool
	steps              []stepModel
	last               core.Time
	next               core.RunID
	ends               []core.RunPhase // more than one where it was opened again
	chain              core.RunID      // its first run
	events             []eventModel    // kept, and not taken yet
	left               []eventModel    // those of the run before that have still to come

	// Of the entry at hand.
	at       core.Time
	operated bool
	op       core.Op
	reopened bool
	timed    bool // a timer had a part in the entry
	outside  bool // something else than a timer made the entry
}

// stepModel is the checker's own idea of a step.
type stepModel struct {
	spec    *core.StepSpec
	policy  *policy.Policy
	told    *policy.Policy // when the attempt began
	kind    core.StepKind
	group   core.StepID
	closed  bool
	phase   core.StepPhase
	dropped bool

	attempt, counted   int
	began              bool // the attempt has started
	ready, live        bool
	backing, stopping  bool
	allowed            int // attempts granted before an operator replaced the policy
	readyAt, started   core.Time
	beat, output       core.Time
	toClose, deadline  core.Time
	next               core.Time
	child, last        core.RunID // the run of the live attempt, of the last one
	attempts           []attemptModel
	endedNow, resetNow bool // in the entry at hand
	losses             losses
}

type attemptModel struct{ ready, started, ended core.Time }

// fold takes an entry and returns since when the run wanted it; zero where something else than a timer made it.
func (m *runModel) fold(b *book, a *account, e core.Entry) core.Time {
	m.b, m.a, m.at = b, a, e.At
	m.operated, m.reopened, m.timed, m.outside = false, false, false, false
	wanted := m.wants()
	if len(e.Records) == 0 {
		m.bad(Recorded, "an entry without records")
	}
	if e.At < m.last {
		m.bad(Recorded, "an entry of %s follows one of %s", offset(e.At), offset(m.last))
	}
	m.last = e.At
	for i := range m.steps {
		m.steps[i].endedNow, m.steps[i].resetNow = false, false
	}
	for _, rec := range e.Records {
		if m.closed && !m.operated {
			switch rec.(type) {
			case core.Operated, core.AttemptStopped: // an operator's retry; the work of a terminated run has gone
			default:
				m.bad(TerminalOnce, "%s follows the run's end", recordText(rec))
			}
		}
		m.take(rec)
	}
	m.joined()
	m.settled()
	if m.outside || m.operated || !m.timed {
		return 0
	}
	return wanted
}

func (m *runModel) bad(inv Invariant, format string, args ...any) {
	m.b.u.violate(inv, m.a.id, format, args...)
}

// timer notes that a timer which stood for that instant fired.
func (m *runModel) timer(due core.Time, what string) {
	if due == 0 || due > m.at {
		m.bad(DueOrder, "%s at %s, it is due at %s", what, offset(m.at), offset(due))
	}
	m.timed = true
}

func (m *runModel) take(rec core.Record) {
	switch rec := rec.(type) {
	case core.RunCreated:
		m.create(rec)
	case core.RunStarted:
		if !m.pending {
			m.bad(Recorded, "the run starts twice")
		}
		if rec.Deadline.At != m.limit {
			m.bad(FixedDeadline, "the start moves the run's deadline from %s to %s", offset(m.limit), offset(rec.Deadline.At))
		}
		m.timer(m.startAt, "a delayed run starts")
		m.pending = false
	case core.RunClosing:
		m.closing, m.paused, m.stopClock = true, 0, false
	case core.RunEnded:
		m.end(rec)
	case core.RunReopened:
		m.reopen(rec)
	case core.PauseBegan:
		m.needs(core.OpPause, "a pause")
		m.paused, m.stopClock = m.at, rec.StopClock
	case core.PauseEnded:
		m.unpause(rec)
	case core.CancelAsked:
		m.needs(core.OpCancel, "a cancel", core.OpInterrupt)
		m.cancelled = true
	case core.SignalKept:
		m.keep(rec)
	case core.DeadlineMoved:
		m.move(rec)
	case core.Operated:
		m.operated, m.op = true, rec.Op
	case core.StepWarned:
		m.outside = true // what a warning is due at is not modelled
	case core.RunHooks:
	default:
		m.takeStep(rec)
	}
}

// needs checks that an operation which was audited in the same entry allows what is recorded.
func (m *runModel) needs(op core.Op, what string, or ...core.Op) {
	if m.operated && m.op == op {
		return
	}
	for _, other := range or {
		if m.operated && m.op == other {
			return
		}
	}
	inv := Recorded
	if op == core.OpExtend || op == core.OpResume {
		inv = FixedDeadline
	}
	m.bad(inv, "%s without an operation that asks for it", what)
}

func (m *runModel) create(rec core.RunCreated) {
	if m.created {
		m.bad(TerminalOnce, "the run is created twice")
	}
	m.created, m.pending, m.startAt = true, rec.StartAt != 0, rec.StartAt
	m.execution, m.limit, m.limitAfter = rec.Execution.At, rec.Deadline.At, rec.Deadline.After > 0
	m.outside = true
	m.join(rec.Chain)
	if rec.Deadline.After > 0 && rec.Deadline.At != max(m.at, rec.StartAt).Add(rec.Deadline.After) {
		m.bad(FixedDeadline, "the run's deadline is %s", offset(rec.Deadline.At))
	}
	parent := m.b.accounts[rec.Parent.Run]
	if rec.Parent.Run == (core.RunID{}) || rec.Chain.Previous != (core.RunID{}) {
		return
	}
	if parent == nil {
		m.bad(Recorded, "the run's parent is not in the journal")
		return
	}
	bound := policy.Earliest(parent.model.execution, parent.model.limit)
	late := m.b.boundComes(m.a.id)
	if bound != 0 && !parent.model.closed && (m.execution == 0 || m.execution > bound) && !late {
		m.bad(FixedDeadline, "the run's execution deadline %s is after its parent's %s", offset(m.execution), offset(bound))
	}
}

func (m *runModel) end(rec core.RunEnded) {
	if m.closed {
		m.bad(TerminalOnce, "the run ends a second time, as %s", rec.Phase)
	}
	m.ends = append(m.ends, rec.Phase)
	m.closed, m.closing, m.paused, m.next = true, false, 0, rec.Next
	for i := range m.steps {
		s := &m.steps[i]
		if !s.closed && !s.dropped {
			m.bad(NoHang, "the run ends while step %s is open", m.name(i))
		}
		if rec.Phase != core.RunTerminated && (s.live || s.stopping) {
			m.bad(OneAttempt, "the run ends while an attempt of step %s lives", m.name(i))
		}
	}
}

func (m *runModel) reopen(rec core.RunReopened) {
	m.needs(core.OpRetryRun, "a run is opened again", core.OpRetryStep)
	if m.a.shadow.Attached().RunRules().Execution != nil && m.execution != 0 && rec.Execution.At == 0 {
		// The limit that passed may have been the parent's. Without this check a child by cron went on for ever (seed
		// 5081106).
		m.bad(FixedDeadline, "the run is opened again without an execution limit, and its workflow has one")
	}
	m.closed, m.closing, m.cancelled, m.reopened, m.next = false, false, false, true, core.RunID{}
	m.execution, m.limit = rec.Execution.At, rec.Deadline.At
	if name := m.a.shadow.WorkflowID; name != "" {
		if other := m.b.openNames[name]; other != m.a && !other.model.closed {
			m.bad(Unique, "the run is opened again while run %s has its workflow id %q", other.id, name)
		}
		m.b.openNames[name] = m.a
	}
	for _, id := range rec.Drop {
		m.steps[id].dropped = true
	}
}

func (m *runModel) unpause(rec core.PauseEnded) {
	m.needs(core.OpResume, "the end of a pause")
	execution, limit := m.execution, m.limit
	if m.stopClock {
		held := m.at.Sub(m.paused)
		if execution != 0 {
			execution = execution.Add(held)
		}
		if limit != 0 {
			limit = limit.Add(max(m.at.Sub(max(m.paused, m.startAt)), 0))
		}
	}
	if rec.Execution.At != execution || rec.Deadline.At != limit {
		m.bad(FixedDeadline, "resuming sets the run's deadlines to %s and %s, they are %s and %s",
			offset(rec.Execution.At), offset(rec.Deadline.At), offset(execution), offset(limit))
	}
	m.execution, m.limit, m.paused, m.stopClock = rec.Execution.At, rec.Deadline.At, 0, false
}

func (m *runModel) move(rec core.DeadlineMoved) {
	m.needs(core.OpExtend, "a deadline moves", core.OpSetPolicy)
	if rec.Step == core.NoStep {
		if rec.Limit == policy.LimitExecution {
			m.execution = rec.At
		} else {
			m.limit = rec.At
		}
		return
	}
	s := &m.steps[rec.Step]
	switch rec.Limit {
	case policy.LimitScheduleToClose:
		s.toClose = rec.At
	case policy.LimitDeadline:
		s.deadline = rec.At
	default:
		s.next = rec.At
	}
}

// settled checks what must hold between entries.
func (m *runModel) settled() {
	for i := range m.steps {
		s := &m.steps[i]
		if !s.closed && s.endedNow && !s.backing && !s.ready && !s.live {
			m.bad(EndsOnce, "the last attempt of step %s has ended, and nothing follows", m.name(i))
		}
		if !s.closed && s.backing && s.next == 0 {
			m.bad(NoHang, "step %s backs off without an instant for its next attempt", m.name(i))
		}
		if i < len(m.a.shadow.Steps) {
			m.compare(i, s, &m.a.shadow.Steps[i])
		}
	}
	if len(m.steps) != len(m.a.shadow.Steps) {
		m.bad(Replay, "there are %d steps in the records and %d in the fold", len(m.steps), len(m.a.shadow.Steps))
	}
	if r := m.a.shadow; r.Execution.At != m.execution || r.Deadline.At != m.limit || r.Phase.Closed() != m.closed {
		m.bad(FixedDeadline, "the fold has the run %s with the deadlines %s and %s, the records %s and %s",
			r.Phase, offset(r.Execution.At), offset(r.Deadline.At), offset(m.execution), offset(m.limit))
	}
}

// compare holds the fold's step against the model's.
func (m *runModel) compare(i int, s *stepModel, f *core.Step) {
	if f.ScheduleToClose != s.toClose || (s.kind != core.KindGroup && f.Deadline != s.deadline) {
		m.bad(FixedDeadline, "step %s has the deadlines %s and %s in the fold, %s and %s in the records",
			m.name(i), offset(f.ScheduleToClose), offset(f.Deadline), offset(s.toClose), offset(s.deadline))
	}
	if f.Lost != s.losses.row || f.Apart != s.losses.counts {
		m.bad(Counted, "step %s has lost %d attempts, of which %d count, in the fold, %d and %d in the records",
			m.name(i), f.Lost, f.Apart, s.losses.row, s.losses.counts)
	}
	if f.Attempt != s.attempt || f.Counted != s.counted || f.Stopping != s.stopping {
		m.bad(OneAttempt, "step %s is in attempt %d (%d counted) in the fold, %d (%d) in the records",
			m.name(i), f.Attempt, f.Counted, s.attempt, s.counted)
	}
	if f.Phase.Closed() != s.closed {
		m.bad(Finished, "step %s is %s in the fold, %s in the records", m.name(i), f.Phase, s.phase)
	}
}

func (m *runModel) name(i int) string {
	s := &m.a.shadow.Steps[i]
	return s.Key()
}
