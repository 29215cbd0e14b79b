package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// runModel is the checker's own model of a run. It applies the records and uses as little of core as possible.
type runModel struct {
	ch *checker
	a  *account

	created, closed    bool
	pending            bool // the start is delayed
	closing, cancelled bool
	stopping           bool      // the body is asked to stop, or will be when the work that must end has ended
	until              core.Time // the body was asked to stop, and this is the latest end of the run
	paused             core.Time
	stopClock          bool
	startAt            core.Time
	execution, limit   core.Time // the stored deadlines
	limitAfter         bool
	warnings           warnings
	q                  queueModel
	steps              []stepModel
	last               core.Time
	next               core.RunID
	ends               []core.RunPhase // more than one if the run was opened again
	chain              core.RunID      // the first run of its chain
	events             []eventModel    // kept and not taken yet
	inherited          []eventModel    // events of the run before that this run must still keep
	taken              []takenModel    // the events that waits took, in this order
	returned           []eventModel    // events that a retry must still give back to the run
	labels             map[string]string
	startLabels        map[string]string
	labelChanges       []labelChangeModel // the changes in their order
	headers            core.Headers

	// The rest is about the current entry.
	at         core.Time
	before     int // how many steps there were before it
	operated   bool
	op         core.Op
	reopened   bool
	begins     bool
	told       bool // an SDK decides, and an event or its answer is in the entry
	byTimer    bool // a timer caused at least a part of the entry
	notByTimer bool // something other than a timer caused at least a part of it
}

// stepModel is the checker's own model of a step.
type stepModel struct {
	spec        *core.StepSpec
	policy      *policy.Policy
	startPolicy *policy.Policy // the policy with which the attempt began
	replaced    bool           // an operator has given it that policy
	itemPolicy  bool           // it has just begun, and its group's policy is going to be recorded as its own
	kind        core.StepKind
	group       core.StepID
	closed      bool
	phase       core.StepPhase
	dropped     bool

	failure      policy.Kind // the kind of failure that it ended with
	failureType  string
	afterFailure bool // it was skipped because something that it needs failed

	attempt, counted     int
	began                bool // the attempt has started
	ready, live          bool
	backingOff, stopping bool
	allowed              int // attempts that were granted before an operator replaced the policy
	readyAt, started     core.Time
	beat, output         core.Time
	toClose, deadline    core.Time
	next                 core.Time
	child, last          core.RunID // the run of the live attempt; that of the last attempt
	attempts             []attemptModel
	endedNow, resetNow   bool // it ended, or was reset, in the current entry
	losses               losses
	delay                time.Duration // the delay before the last retry
	held                 core.Held
}

type attemptModel struct{ ready, started, ended core.Time }

// applyEntry applies an entry. It returns the instant at which the run's timer was due; zero if no timer caused the
// entry.
func (m *runModel) applyEntry(b *checker, a *account, e core.Entry) core.Time {
	m.ch, m.a, m.at = b, a, e.At
	m.operated, m.reopened, m.begins, m.byTimer, m.notByTimer = false, false, false, false, false
	wanted := m.nextDue()
	if len(e.Records) == 0 {
		m.fail(Recorded, "an entry without records")
	}
	if e.At < m.last {
		m.fail(Recorded, "an entry of %s follows one of %s", offset(e.At), offset(m.last))
	}
	m.last, m.before, m.told = e.At, len(m.steps), a.sdk.tells(e)
	for i := range m.steps {
		m.steps[i].endedNow, m.steps[i].resetNow = false, false
	}
	for _, rec := range e.Records {
		if m.closed && !m.operated {
			switch rec.(type) {
			case core.Operated, core.AttemptStopped: // an operator's retry, or the work of a terminated run has stopped
			default:
				m.fail(TerminalOnce, "%s follows the run's end", recordText(rec))
			}
		}
		m.apply(rec)
	}
	m.checkInherited()
	m.checkLabels()
	m.checkAnew()
	m.checkFailFast()
	m.checkState()
	if m.notByTimer || m.operated || !m.byTimer {
		return 0
	}
	return wanted
}

func (m *runModel) fail(inv Invariant, format string, args ...any) {
	if !m.a.sdk.copied(m.a) {
		m.ch.u.violate(inv, m.a.id, format, args...)
	}
}

// checkTimer checks that a timer which fires was due.
func (m *runModel) checkTimer(due core.Time, what string) {
	if due == 0 || due > m.at {
		m.fail(DueOrder, "%s at %s, but it is due at %s", what, offset(m.at), offset(due))
	}
	m.byTimer = true
}

func (m *runModel) apply(rec core.Record) {
	switch rec := rec.(type) {
	case core.RunCreated:
		m.create(rec)
	case core.RunStarted:
		m.leavePending(rec)
		m.begins = true
	case core.RunQueued:
		m.enterQueue()
	case core.RunHeld:
		m.notByTimer = true
		if !m.inQueue() {
			m.fail(Limited, "a run is held that does not wait in its queue")
		}
	case core.RunStopping:
		m.stops(rec)
	case core.RunClosing:
		m.checkAsked(rec)
		m.closing, m.paused, m.stopClock = true, 0, false
	case core.RunEnded:
		m.end(rec)
	case core.RunReopened:
		m.reopen(rec)
	case core.PauseBegan:
		m.checkOperation(core.OpPause, "a pause")
		m.paused, m.stopClock = m.at, rec.StopClock
	case core.PauseEnded:
		m.unpause(rec)
	case core.CancelAsked:
		m.checkOperation(core.OpCancelGracefully, "a cancel", core.OpCancel)
		m.cancelled = true
	case core.SignalKept:
		m.keepEvent(rec)
	case core.DeadlineMoved:
		m.move(rec)
	case core.Operated:
		m.operated, m.op = true, rec.Op
	case core.StepWarned:
		m.notByTimer = true // warnings are in no order with other timers
		if rec.Step == core.NoStep {
			m.warn(rec.Limit)
		}
	case core.BodyAnswered, core.StepCancelAsked, core.StepChildBegan:
		hears(m, rec)
	case core.RunHooks:
		m.checkAlone()
	default:
		m.applyStep(rec)
	}
}

// checkOperation checks that the same entry contains an operation which allows what is recorded.
func (m *runModel) checkOperation(op core.Op, what string, or ...core.Op) {
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
	m.fail(inv, "%s, and no operation asked for it", what)
}

func (m *runModel) create(rec core.RunCreated) {
	if m.created {
		m.fail(TerminalOnce, "the run is created twice")
	}
	m.created, m.pending, m.startAt = true, rec.StartAt != 0, rec.StartAt
	m.execution, m.limit, m.limitAfter = rec.Execution.At, rec.Deadline.At, rec.Deadline.After > 0
	m.warnings.create(m, rec)
	m.notByTimer = true
	m.joinChain(rec.Chain)
	m.createLabels(rec)
	m.createInQueue(rec)
	m.createHeaders(rec)
	m.createInFamily(rec)
	parent := m.ch.accounts[rec.Parent.Run]
	if rec.Parent.Run == (core.RunID{}) || rec.Chain.Previous != (core.RunID{}) {
		return
	}
	if parent == nil {
		m.fail(Recorded, "the run's parent is not in the journal")
		return
	}
	if !parent.model.outlives(rec.Parent.Step) {
		m.ch.born = append(m.ch.born, birth{m, &parent.model, rec.Parent.Step})
	}
}

// birth is a child run that a batch creates.
type birth struct {
	child, parent *runModel
	step          core.StepID // the parent's
}

// check checks that a child run which a batch creates ends with its parent. Within the batch the parent's deadline may
// move after the child's start was decided; the child then learns of it in the same batch or by a message. If it has
// passed by then, the child ends at once. A parent that has stopped its step tells the child no deadlines any more: the
// child ends, or goes on alone.
func (b birth) check(ch *checker) {
	bound := b.parent.runLimit()
	within := bound == 0 || b.child.execution != 0 && b.child.execution <= max(bound, b.child.at+1)
	s := &b.parent.steps[b.step]
	if !within && !s.stopping && !s.closed && !b.parent.closed && !b.child.closed && !ch.boundInTransit(b.child.a.id) {
		b.child.fail(FixedDeadline, "the run's execution deadline %s is after its parent's %s",
			offset(b.child.execution), offset(bound))
	}
}

func (m *runModel) end(rec core.RunEnded) {
	if m.closed {
		m.fail(TerminalOnce, "the run ends a second time, as %s", rec.Phase)
	}
	m.ends = append(m.ends, rec.Phase)
	m.closed, m.closing, m.paused, m.next = true, false, 0, rec.Next
	m.pending, m.q.waits, m.q.place = false, false, false
	m.checkTold(rec.Phase)
	for i := range m.steps {
		s := &m.steps[i]
		if !s.closed && !s.dropped {
			m.fail(NoHang, "the run ends while step %s is open", m.name(i))
		}
		if rec.Phase != core.RunTerminated && m.a.sdk == nil && (s.live || s.stopping) {
			m.fail(OneAttempt, "the run ends while an attempt of step %s is live", m.name(i))
		}
	}
}

func (m *runModel) reopen(rec core.RunReopened) {
	m.checkOperation(core.OpRetryRun, "a run is opened again", core.OpRetryStep)
	if rec.ForHook {
		m.closed, m.closing, m.reopened = false, true, true
		m.takeName()
		return
	}
	if m.a.state.Attached().RunRules(m.a.state.Input).Execution != nil && m.execution != 0 && rec.Execution.At == 0 {
		// The limit that passed may have been the parent's. Without this check a child by cron went on forever (seed
		// 5081106).
		m.fail(FixedDeadline, "the run is opened again without an execution limit, and its workflow has one")
	}
	m.reopenInQueue(rec)
	m.stopping, m.until, m.cancelled = rec.Until != 0, rec.Until, m.cancelled && rec.Until != 0
	m.closed, m.closing, m.reopened, m.next = false, false, true, core.RunID{}
	m.warnings.execution.lead = rec.Execution.Lead
	m.warnings.execution.moved(m.execution, rec.Execution.At, m.at)
	m.warnings.limit.moved(m.limit, rec.Deadline.At, m.at)
	m.execution, m.limit = rec.Execution.At, rec.Deadline.At
	m.takeName()
	for _, id := range rec.Drop {
		m.steps[id].dropped = true
	}
	m.returnEvents()
	m.resetLabels()
}

// takeName gives a run that is opened again its workflow id again.
func (m *runModel) takeName() {
	name := m.a.state.WorkflowID
	if name == "" {
		return
	}
	if other := m.ch.openNames[name]; other != m.a && !other.model.closed {
		m.fail(Unique, "the run is opened again while run %s has its workflow id %q", other.id, name)
	}
	m.ch.openNames[name] = m.a
}

func (m *runModel) unpause(rec core.PauseEnded) {
	m.checkOperation(core.OpResume, "the end of a pause")
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
		m.fail(FixedDeadline, "a resume sets the run's deadlines to %s and %s, but they must be %s and %s",
			offset(rec.Execution.At), offset(rec.Deadline.At), offset(execution), offset(limit))
	}
	m.execution, m.limit, m.paused, m.stopClock = rec.Execution.At, rec.Deadline.At, 0, false
	if m.inQueue() {
		m.enterTurns()
	}
}

func (m *runModel) move(rec core.DeadlineMoved) {
	m.checkOperation(core.OpExtend, "a deadline moves", core.OpSetPolicy)
	if rec.Step == core.NoStep {
		if rec.Limit == policy.LimitExecution {
			m.warnings.execution.moved(m.execution, rec.At, m.at)
			m.execution = rec.At
		} else {
			m.warnings.limit.moved(m.limit, rec.At, m.at)
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

// checkState checks what must hold after every entry.
func (m *runModel) checkState() {
	for i := range m.steps {
		s := &m.steps[i]
		if !s.closed && s.endedNow && !s.backingOff && !s.ready && !s.live {
			m.fail(EndsOnce, "the last attempt of step %s has ended, and the step neither ends nor is retried",
				m.name(i))
		}
		if !s.closed && s.backingOff && s.next == 0 {
			m.fail(NoHang, "step %s backs off, and has no instant for its next attempt", m.name(i))
		}
		if !s.closed && s.group != core.NoStep && m.steps[s.group].closed {
			m.fail(NoHang, "step %s is open, and its group %s has ended", m.name(i), m.name(int(s.group)))
		}
		if i < len(m.a.state.Steps) {
			m.compare(i, s, &m.a.state.Steps[i])
		}
	}
	if len(m.steps) != len(m.a.state.Steps) {
		m.fail(Replay, "the records make %d steps, the state has %d", len(m.steps), len(m.a.state.Steps))
	}
	if r := m.a.state; r.Execution.At != m.execution || r.Deadline.At != m.limit || r.Phase.Closed() != m.closed {
		m.fail(FixedDeadline, "the state has the run %s with the deadlines %s and %s, the model has %s and %s",
			r.Phase, offset(r.Execution.At), offset(r.Deadline.At), offset(m.execution), offset(m.limit))
	}
}

// compare compares a step of the state with the step of the model.
func (m *runModel) compare(i int, s *stepModel, f *core.Step) {
	if f.ScheduleToClose != s.toClose || (s.kind != core.KindGroup && f.Deadline != s.deadline) {
		m.fail(FixedDeadline, "step %s has the deadlines %s and %s in the state, %s and %s in the model",
			m.name(i), offset(f.ScheduleToClose), offset(f.Deadline), offset(s.toClose), offset(s.deadline))
	}
	if f.Lost != s.losses.row || f.LostAlone != s.losses.counts {
		m.fail(Counted, "step %s has lost %d attempts, of which %d count, in the state, %d and %d in the model",
			m.name(i), f.Lost, f.LostAlone, s.losses.row, s.losses.counts)
	}
	if f.Attempt != s.attempt || f.Counted != s.counted || f.Stopping != s.stopping {
		m.fail(OneAttempt, "step %s is in attempt %d (%d counted) in the state, %d (%d) in the model",
			m.name(i), f.Attempt, f.Counted, s.attempt, s.counted)
	}
	if f.Phase.Closed() != s.closed {
		m.fail(Finished, "step %s is %s in the state, %s in the model", m.name(i), f.Phase, s.phase)
	}
}

func (m *runModel) name(i int) string {
	s := &m.a.state.Steps[i]
	return s.Key()
}
