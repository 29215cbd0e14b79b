package core

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// Types of the failures of lost attempts that are excused. After several lost attempts in a row a step is stopped,
// since it may be the step that kills its workers; an excused attempt does not count among them, since it cannot have
// done so.
const (
	// TypeWorkerClosed: the worker was closed in good order while the attempt ran.
	TypeWorkerClosed = "worker_closed"
	// TypeNotBegun: the attempt's work never began. Its worker died before it reported that it begins (it does so if
	// the earlier attempt was lost), or the attempt reached its worker after its deadline, or before the body of its
	// run had reached its function again.
	TypeNotBegun = "not_begun"
)

// excused reports whether a lost attempt does not count among those that stop its step.
func excused(f *policy.Failure) bool { return f.Type == TypeWorkerClosed || f.Type == TypeNotBegun }

// lostWithEngine returns the failure of a running attempt whose worker died together with its engine. A first attempt
// may have begun, since only its start was recorded; so it counts. One after a lost attempt reports a Beat before it
// begins: without a sign of life it has not begun.
func (s *Step) lostWithEngine() *policy.Failure {
	f := &policy.Failure{Kind: policy.KindLost, Type: "lost", Message: "the engine that ran the attempt is gone"}
	if s.unbegun() {
		f.Type, f.Message = TypeNotBegun, "the engine was gone before the attempt began"
	}
	return f
}

// unbegun reports whether the worker of a running attempt has yet to report that the work begins. It may begin only
// when that is durable, so an attempt that is ended before does nothing.
func (s *Step) unbegun() bool {
	return s.Phase == StepRunning && s.Lost > 0 && s.BeatAt == 0 && s.ByteAt == 0
}

// attempt finds the step a report is about; a report for an attempt that is not in that phase is stale.
func (m *machine) attempt(op string, id StepID, attempt int, phase StepPhase) (*Step, error) {
	if m.r.Phase.Closed() {
		return nil, m.refuse(CodeClosed, op, "the run is %s", m.r.Phase)
	}
	if int(id) >= len(m.r.Steps) {
		return nil, m.refuse(CodeNotFound, op, "there is no step %d", id)
	}
	s := &m.r.Steps[id]
	if s.Attempt != attempt || s.Phase != phase {
		return nil, m.refuse(CodeStale, op, "step %q is %s in attempt %d, the report is for attempt %d",
			s.Key(), s.Phase, s.Attempt, attempt)
	}
	return s, nil
}

// overdue reports whether a limit of an open step has passed, and processes what is due then. A detached step outlives
// the limit of its run; its own one may have passed too, and nothing else tells so while the clock is behind the run.
func overdue(m *machine, step StepID) bool {
	isDue := func() bool {
		s := &m.r.Steps[step]
		d := m.r.binding(s)
		return !s.Phase.Closed() && d.at != 0 && d.at <= m.now
	}
	if !isDue() {
		return false
	}
	if m.tick(); isDue() {
		m.tick()
	}
	return true
}

func (m *machine) taskStarted(in TaskStarted) error {
	s, err := m.attempt("start of an attempt", in.Step, in.Attempt, StepScheduled)
	if err != nil {
		return err
	}
	if m.r.PausedAt != 0 {
		return m.refuse(CodeConflict, "start of an attempt", "the run is paused")
	}
	// An expiry beats a start at the same instant: an attempt picked up at its deadline never executes.
	if overdue(m, s.ID) {
		return nil
	}
	m.emit(AttemptStarted{
		Step: s.ID, Worker: in.Worker, Deadline: m.firstDeadline(s), Secret: in.Secret, Confirms: in.Confirms,
	})
	payload, failure := m.r.decide().Task(m.r, s, m.now)
	if failure != nil {
		m.attemptEnded(s, failure, nil, false)
		return nil
	}
	m.effect(Dispatch{Task: m.r.task(s, payload)})
	return nil
}

// task returns the attempt as a worker gets it.
func (r *Run) task(s *Step, payload []byte) Task {
	p := s.Effective()
	t := Task{
		Token: Token{r.ID, s.ID, s.Attempt}, Top: r.Top(), StepName: s.Key(), Workflow: r.Workflow,
		Type: s.Spec.Type, Queue: s.Spec.Queue,
		Payload: payload, Count: s.Counted, Details: s.Details, Announce: s.Lost > 0,
		Headers: r.Headers, Secret: s.Secret, Confirms: s.Confirms, Group: s.SuspectsBeside,
	}
	d := r.binding(s)
	// The bound of the attempt as a whole; silence limits are measured on their own.
	if d.limit == policy.LimitHeartbeat || d.limit == policy.LimitInactivity {
		d = r.spanning(s).withLimit(policy.LimitStartToClose, p.StartToClose, s.Started)
	}
	t.Deadline, t.Bound = d.at, d.limit
	t.Heartbeat, t.Inactivity = reportEvery(p.Heartbeat), reportEvery(p.Inactivity)
	return t
}

// RemoteTasks returns the attempts that workers in other processes execute, or still stop, as these workers know them,
// but without the payload. A worker gets an attempt that has to announce itself only after that.
func (r *Run) RemoteTasks() []Task {
	var out []Task
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Secret != 0 && (s.Phase == StepRunning || s.Stopping) && !s.unbegun() {
			out = append(out, r.task(s, nil))
		}
	}
	return out
}

// reportEvery returns how long work may give no sign before that has to be known, in microseconds: the limit, or its
// warning.
func reportEvery(l *policy.Limit) int64 {
	switch {
	case l == nil:
		return 0
	case l.Warn > 0:
		return max((l.After / 100 * time.Duration(l.Warn)).Microseconds(), 1)
	default:
		return l.After.Microseconds()
	}
}

func (m *machine) taskEnded(in TaskEnded) error {
	s, err := m.attempt("end of an attempt", in.Step, in.Attempt, StepRunning)
	if err != nil {
		return err
	}
	if in.Failure != nil {
		if in.Failure.Type == TypeNotBegun && overdue(m, s.ID) {
			return nil
		}
		f := *in.Failure
		f.Limit, f.Origin = policy.LimitNone, "" // the machine alone knows which of its limits fire
		m.returned = in.Output
		m.attemptEnded(s, &f, in.Details, false)
		m.returned = nil
		return nil
	}
	m.emit(AttemptEnded{Step: s.ID, Details: in.Details})
	m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded, Output: in.Output})
	return nil
}

func (m *machine) taskStopped(in TaskStopped) error {
	// Also of a run that has ended: one that was terminated may be retried, and then waits for the work that still
	// runs.
	if int(in.Step) >= len(m.r.Steps) {
		return m.refuse(CodeNotFound, "stop of an attempt", "there is no step %d", in.Step)
	}
	s := &m.r.Steps[in.Step]
	// A child run that goes on alone when its parent ends is not cancelled with it, and records that. Without this the
	// parent would wait for the child's end.
	if in.Abandoned && m.r.CancelAsked && s.Spec.Kind == KindChild && s.executes() && s.Attempt == in.Attempt {
		f := cancelled("the run is cancelled, and the child run goes on alone")
		m.emit(AttemptEnded{Step: s.ID, Failure: f})
		m.emit(StepEnded{Step: s.ID, Phase: StepCancelled, Reason: policy.ReasonCancelled, Failure: f})
		return nil
	}
	if !s.Stopping || s.Attempt != in.Attempt {
		return m.refuse(CodeStale, "stop of an attempt", "step %q has no attempt %d that is stopping", s.Key(),
			in.Attempt)
	}
	m.emit(AttemptStopped{Step: in.Step, Abandoned: in.Abandoned, Killed: in.Killed})
	m.readyAgain(in.Step)
	return nil
}

func (m *machine) beat(in Beat) error {
	s, err := m.attempt("heartbeat", in.Step, in.Attempt, StepRunning)
	if err != nil && !lastWords(m.r, in) {
		return err
	}
	if err != nil {
		s = &m.r.Steps[in.Step]
	}
	at := in.At
	if at == 0 || at > m.now {
		at = m.now
	}
	m.emit(AttemptBeat{Step: s.ID, At: max(at, s.Started), Output: in.Output, Details: in.Details})
	return nil
}

// lastWords reports whether a heartbeat shows the position of work that was told to stop and is tried again: the next
// attempt continues from there.
func lastWords(r *Run, in Beat) bool {
	if r.Phase.Closed() || int(in.Step) >= len(r.Steps) || in.Details == nil {
		return false
	}
	s := &r.Steps[in.Step]
	newer := in.At == 0 || in.At >= s.BeatAt
	return newer && s.Stopping && s.Attempt == in.Attempt && s.Phase == StepBackingOff
}

func (m *machine) childEnded(in ChildEnded) error {
	if int(in.Step) < len(m.r.Steps) && m.r.Steps[in.Step].Stopping {
		return m.taskStopped(TaskStopped{Step: in.Step, Attempt: in.Attempt})
	}
	s, err := m.attempt("end of a child run", in.Step, in.Attempt, StepSuspended)
	if err != nil {
		return err
	}
	if in.Phase == RunTimedOut && !m.r.Answers() && m.expireWithChild(s, in.Failure) {
		return nil
	}
	switch in.Phase {
	case RunSucceeded:
		m.emit(AttemptEnded{Step: s.ID})
		m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded, Output: in.Output})
	case RunPending:
		f := *in.Failure
		f.Message = "the child run could not be started: " + f.Message
		m.attemptEnded(s, &f, nil, false)
	case RunCancelled, RunTerminated:
		f := cancelled("the child run " + in.Child.String() + " was " + in.Phase.String())
		f.Cause = in.Failure
		if in.Phase == RunTerminated {
			f.Type = typeTerminated
		}
		m.attemptEnded(s, f, nil, false)
	default:
		ended := strings.ReplaceAll(in.Phase.String(), "_", " ")
		f := &policy.Failure{
			Kind: policy.KindError, Type: "child",
			Message: "the child run " + in.Child.String() + " " + ended, Cause: in.Failure,
		}
		if in.Failure != nil {
			f.Type, f.Code = in.Failure.Type, in.Failure.Code
			switch {
			case in.Failure.Kind == policy.KindFailed,
				in.Failure.Kind == policy.KindTimeout && in.Failure.Limit == policy.LimitNone: // a step said so itself
				f.Kind = in.Failure.Kind
			}
			f.Message += ": " + ends(Sentence(in.Failure))
		}
		m.attemptEnded(s, f, nil, false)
	}
	return nil
}

// expireWithChild fires a limit of this run, or of its step, that has ended the child run. The child inherits both
// limits, so at their instant either run may be the first to act. It reports whether there was such a limit.
func (m *machine) expireWithChild(s *Step, cause *policy.Failure) bool {
	run, own := m.r.outerLimit(s), m.r.stepLimit(s)
	switch {
	case run.at != 0 && run.at <= m.now && (own.at == 0 || run.at <= own.at):
		f := m.r.timeout(s, run.limit, cause)
		m.emit(AttemptEnded{Step: s.ID, Failure: f})
		m.emit(StepEnded{Step: s.ID, Phase: StepTimedOut, Reason: policy.ReasonTimeoutNotRetryable, Failure: f})
		m.expireRun(run)
	case own.at != 0 && own.at <= m.now:
		m.attemptEnded(s, m.r.timeout(s, own.limit, cause), nil, false)
	default:
		return false
	}
	return true
}

// attemptEnded records that the step's attempt failed. The policy judges what follows: another attempt, or the step's
// end.
func (m *machine) attemptEnded(s *Step, f *policy.Failure, details []byte, stopping bool) {
	p := s.Effective()
	apart := s.apart(f, details)
	v, note := m.judge(s, p, f, apart)
	if v.Retry {
		m.emit(AttemptEnded{
			Step: s.ID, Failure: f, Details: details, Stopping: stopping, Retry: true, NextAt: v.At, Note: note,
			LostAlone: apart,
		})
		m.readyAgain(s.ID)
		return
	}
	m.emit(AttemptEnded{Step: s.ID, Failure: f, Details: details, Stopping: stopping, Note: note, LostAlone: apart})
	phase, last := failedPhase(s, f), f
	if v.Reason == policy.ReasonNoTimeLeft {
		// The step ends as the deadline's expiry would end it, with the last real failure attached.
		phase, last = expiredPhase(p, v.Bound), m.r.noTimeLeft(s, v.Bound, f)
	}
	m.emit(StepEnded{Step: s.ID, Phase: phase, Reason: v.Reason, Failure: last})
}

func (m *machine) judge(s *Step, p *policy.Policy, f *policy.Failure, apart int) (judge.Verdict, string) {
	var match judge.Match
	if p.Retry != nil && p.Retry.When != "" && f.Kind != policy.KindLost {
		match = m.r.decide().Match(m.r, s, p.Retry.When, f, m.returned, m.now)
	}
	v := judge.Judge(p, historyOf(m.r, s, f, apart), f, match, m.now, m.r.random(s))
	return v, match.Error
}

// historyOf returns what the judge of a failed attempt has to know of its step.
func historyOf(r *Run, s *Step, f *policy.Failure, apart int) judge.History {
	h := judge.History{
		Counted: s.Counted, Previous: time.Duration(s.Delay) * time.Millisecond,
		Closed: s.CancelAsked || r.Ending() && !s.Spec.Hook && (!s.Spec.Detached || r.Closing != nil),
	}
	if f.Kind == policy.KindLost {
		h.Counted, h.Lost, h.LostAlone = s.Counted-1, s.Lost, apart
		if !excused(f) {
			h.Lost++
		}
	}
	d := r.spanning(s)
	if r.PausedAt != 0 {
		d = r.outerLimit(s) // the next attempt follows the pause, after which the step's own deadlines are fresh
	}
	h.Deadline, h.Bound = d.at, d.limit
	return h
}

// random returns the number that spreads a delay: a function of the attempt, so that a preview shows the very delays
// that will happen. A definition may choose its own, which the policy simulator does.
func (r *Run) random(s *Step) float64 {
	if r.def.Random != nil {
		return r.def.Random()
	}
	return judge.Random(r.ID, s.Key(), s.Attempt)
}

// failedPhase returns the terminal phase of a step whose last attempt failed with f.
func failedPhase(s *Step, f *policy.Failure) StepPhase {
	switch f.Kind {
	case policy.KindTimeout:
		return expiredPhase(s.Effective(), f.Limit)
	case policy.KindCancelled:
		return StepCancelled
	default:
		return StepFailed
	}
}
