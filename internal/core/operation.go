package core

import (
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// operate applies an operator's or a client's operation. Every operation that is carried out is audited first.
func (m *machine) operate(in Operation) error {
	if m.r.Phase.Closed() && in.Op != OpRetryRun && in.Op != OpRetryStep {
		return m.refuse(CodeClosed, in.Op.String(), "the run is %s", m.r.Phase)
	}
	if err := refuseAnswered(m, in.Op); err != nil {
		return err
	}
	if err := m.refuseElsewhere(in); err != nil {
		return err
	}
	switch in.Op {
	case OpPause, OpResume:
		return m.propagateDeadlines(func() error { return m.operateRun(in) })
	case OpCancelGracefully, OpCancel, OpTerminate, OpRetryRun:
		return m.operateRun(in)
	case OpExtend, OpSetPolicy:
		return m.propagateDeadlines(func() error { return m.operateAt(in) })
	default: // the operations on a step
		return m.operateAt(in)
	}
}

// operateAt applies an operation to the step that it names, an extension also to the run.
func (m *machine) operateAt(in Operation) error {
	if in.Op == OpExtend && in.Step == NoStep {
		return m.extendRun(in)
	}
	if int(in.Step) >= len(m.r.Steps) || m.r.Steps[in.Step].Dropped {
		return m.refuse(CodeNotFound, in.Op.String(), "there is no such step")
	}
	return m.operateStep(in, &m.r.Steps[in.Step])
}

func (m *machine) audit(in Operation, step StepID) {
	m.emit(Operated{Op: in.Op, Step: step, Actor: in.Actor, Reason: in.Reason})
}

func (m *machine) operateRun(in Operation) error {
	switch in.Op {
	case OpCancelGracefully, OpCancel:
		c := m.r.Closing
		if m.r.Answers() && c == nil {
			m.audit(in, NoStep) // its body learns of it, and decides what follows
			return nil
		}
		if m.r.Stop != nil && c == nil {
			return m.cancelStopping(in)
		}
		if in.Op == OpCancelGracefully && (m.r.CancelAsked || c != nil && m.next(c.Phase, c.Failure) == nil) {
			return m.refuse(CodeConflict, in.Op.String(), "the run is being closed already")
		}
		m.audit(in, NoStep)
		if c != nil {
			m.cancelClosing(in.Op == OpCancel)
			return nil
		}
		m.cancel(in.Op == OpCancel)
	case OpTerminate:
		m.audit(in, NoStep)
		m.terminate(in.Reason)
	case OpPause:
		if m.r.PausedAt != 0 || m.r.Ending() {
			return m.refuse(CodeConflict, "pause", "the run is %s", m.describe())
		}
		m.audit(in, NoStep)
		m.pause(in.StopClock)
	case OpResume:
		if m.r.PausedAt == 0 {
			return m.refuse(CodeConflict, "resume", "the run is not paused")
		}
		m.audit(in, NoStep)
		m.resume()
	default:
		return m.retryRun(in)
	}
	return nil
}

func (m *machine) describe() string {
	if m.r.Ending() {
		return "closing"
	}
	return m.r.Phase.String()
}

func (m *machine) pause(stopClock bool) {
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; s.Phase == StepScheduled {
			m.effect(Withdraw{Step: s.ID, Attempt: s.Attempt})
		}
	}
	m.emit(PauseBegan{StopClock: stopClock})
}

// resume makes a paused run go on: open steps get new deadlines; those of the run kept running unless its clock was
// stopped.
func (m *machine) resume() {
	end := PauseEnded{Execution: m.r.Execution, Deadline: m.r.Deadline}
	if m.r.StopClock {
		end.Execution = end.Execution.shift(m.now.Sub(m.r.PausedAt))
		if began := max(m.r.PausedAt, m.r.StartAt); began < m.now { // the run's own clock starts with the run
			end.Deadline = end.Deadline.shift(m.now.Sub(began))
		}
	}
	m.emit(end)
	if m.r.waitsForStart() {
		return // its steps get fresh deadlines when it begins
	}
	if m.r.WaitsForBody() {
		m.r.asked = false // the decisions that the body made meanwhile were refused
	}
	if m.r.Answers() && !m.r.bodyPending {
		m.effect(Consult{}) // it may have something to be asked that is not recorded
	}
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if s.Phase.Closed() {
			continue
		}
		m.emit(m.freshStep(s))
		switch {
		case s.Phase == StepScheduled:
			m.effect(m.r.offer(s))
		case s.Phase == StepBackingOff:
			m.readyAgain(s.ID)
		}
	}
}

// freshStep gives an open step deadlines whose clocks start now. A stored deadline that is later stays, since an
// operator extended it; so does one that is configured as an instant.
func (m *machine) freshStep(s *Step) StepReset {
	p := s.Effective()
	fresh := func(stored Time, l *policy.Limit) Time {
		if stored == 0 || l == nil || l.At != 0 {
			return stored
		}
		return max(stored, m.now.Add(l.After))
	}
	rec := StepReset{
		Step: s.ID, ScheduleToClose: fresh(s.ScheduleToClose, p.ScheduleToClose),
		Deadline: fresh(s.Deadline, p.Deadline),
	}
	if s.Spec.Kind == KindWait {
		rec.NextAt = fresh(s.NextAt, p.Wait)
	}
	return rec
}

func (m *machine) extendRun(in Operation) error {
	if m.r.Closing != nil || m.r.Stop != nil {
		return m.refuse(CodeConflict, "extend", "the run is closing; its limits no longer count")
	}
	limit, at := in.Limit, m.r.Deadline.At
	if limit == policy.LimitNone {
		limit = policy.LimitRun
		if at == 0 {
			limit = policy.LimitExecution
		}
	}
	switch limit {
	case policy.LimitRun:
	case policy.LimitExecution:
		at = m.r.Execution.At
	default:
		return m.refuse(CodeInvalid, "extend", "a run has no %s limit; name execution or run", limit)
	}
	to, err := m.extended(in, limit, at)
	if err != nil {
		return err
	}
	m.audit(in, NoStep)
	m.emit(DeadlineMoved{Step: NoStep, Limit: limit, At: to})
	return nil
}

// extended computes where a stored deadline moves to; zero removes it.
func (m *machine) extended(in Operation, limit policy.LimitKind, at Time) (Time, error) {
	switch {
	case in.To == policy.FarFuture:
		return 0, nil
	case in.To != 0:
		if in.To <= m.now {
			return 0, m.refuse(CodeInvalid, "extend", "%s lies in the past", in.To)
		}
		return in.To, nil
	case at == 0:
		return 0, m.refuse(CodeConflict, "extend", "there is no %s deadline to extend here; steps have their own",
			limit)
	case in.By == 0:
		return 0, m.refuse(CodeInvalid, "extend", "say by how much or until when")
	default:
		return max(at.Add(in.By), m.now), nil
	}
}

func (m *machine) operateStep(in Operation, s *Step) error {
	open := !s.Phase.Closed()
	if in.Op == OpRetryStep {
		return m.retryStep(in, s)
	}
	if !open {
		return m.refuse(CodeConflict, in.Op.String(), "step %s is %s", strconv.Quote(s.Key()), s.Phase)
	}
	if s.Spec.Kind == KindWait && (in.Op == OpSkip || in.Op == OpComplete || in.Op == OpFail) {
		if err := mayDecide(m, in.Op.String(), "", s, in.Actor); err != nil {
			return err
		}
	}
	switch in.Op {
	case OpSkip:
		m.audit(in, s.ID)
		m.stop(s, StepSkipped, policy.ReasonOperator, nil)
	case OpComplete:
		m.audit(in, s.ID)
		m.complete(s, in.Output)
	case OpFail:
		f := in.Failure
		if f == nil {
			f = &policy.Failure{Kind: policy.KindFailed, Type: "operator", Message: "failed by an operator"}
		}
		m.audit(in, s.ID)
		m.stop(s, StepFailed, policy.ReasonOperator, f)
	case OpNow:
		if s.Phase != StepBackingOff {
			return m.refuse(CodeConflict, "now", "step %q is %s, not backing off", s.Key(), s.Phase)
		}
		m.audit(in, s.ID)
		m.emit(StepReset{Step: s.ID, ScheduleToClose: s.ScheduleToClose, Deadline: s.Deadline, NextAt: m.now})
		m.readyAgain(s.ID)
	case OpSetPolicy:
		if in.Policy == nil {
			return m.refuse(CodeInvalid, "set policy", "no policy given")
		}
		m.audit(in, s.ID)
		m.setPolicies(s, in.Policy)
	default:
		return m.extendStep(in, s)
	}
	return nil
}

// complete ends an open step with a result of the operator's.
func (m *machine) complete(s *Step, output []byte) {
	switch {
	case s.Phase == StepScheduled:
		m.effect(Withdraw{Step: s.ID, Attempt: s.Attempt})
		m.emit(AttemptEnded{Step: s.ID, Failure: cancelled("completed by an operator")})
	case s.Phase == StepRunning, s.Spec.Kind == KindChild && s.Started != 0:
		m.revoke(s, policy.KindCancelled)
		m.emit(AttemptEnded{Step: s.ID, Failure: cancelled("completed by an operator"), Stopping: true})
	}
	m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded, Reason: policy.ReasonOperator, Output: output})
	if s.Spec.Kind == KindGroup {
		m.stopItems(s.ID)
	}
}

// setPolicies replaces the policy of a step, or of a group's items, including those that begin later.
func (m *machine) setPolicies(s *Step, p *policy.Policy) {
	if s.Spec.Kind != KindGroup {
		m.setPolicy(s, p)
		return
	}
	m.emit(StepPolicy{Step: s.ID, Policy: p})
	for i := range m.r.Steps {
		if item := &m.r.Steps[i]; item.Group == s.ID && !item.Phase.Closed() {
			m.setPolicies(item, p)
		}
	}
}

// itemPolicy returns the policy that an operator gave a group for its items, or nil if there is none.
func (r *Run) itemPolicy(group StepID) *policy.Policy {
	if group == NoStep {
		return nil
	}
	return r.Steps[group].Policy
}

// setPolicy replaces an open step's policy; its stored deadlines follow the new amounts from where their clocks
// started.
func (m *machine) setPolicy(s *Step, p *policy.Policy) {
	old := *s.Effective()
	toClose, deadline := s.ScheduleToClose, s.Deadline
	m.emit(StepPolicy{Step: s.ID, Policy: p})
	move := func(kind policy.LimitKind, stored Time, was, is *policy.Limit, from Time) {
		if stored != 0 && was != nil && was.At == 0 {
			from = stored.Add(-was.After)
		}
		if to := stepDeadline(is, from); to != stored {
			m.emit(DeadlineMoved{Step: s.ID, Limit: kind, At: to})
		}
	}
	move(policy.LimitScheduleToClose, toClose, old.ScheduleToClose, p.ScheduleToClose, s.ScheduledAt)
	move(policy.LimitDeadline, deadline, old.Deadline, p.Deadline, s.Began)
	if s.Spec.Kind == KindWait {
		move(policy.LimitWait, s.NextAt, old.Wait, p.Wait, s.ScheduledAt)
	}
}

func (m *machine) extendStep(in Operation, s *Step) error {
	limit := in.Limit
	stored := map[policy.LimitKind]Time{
		policy.LimitScheduleToClose: s.ScheduleToClose, policy.LimitDeadline: s.Deadline,
	}
	if s.Spec.Kind == KindWait {
		stored[policy.LimitWait] = s.NextAt
	}
	if limit == policy.LimitNone {
		for _, k := range []policy.LimitKind{policy.LimitScheduleToClose, policy.LimitDeadline, policy.LimitWait} {
			if stored[k] != 0 {
				limit = k
				break
			}
		}
	}
	if limit == policy.LimitNone {
		return m.refuse(CodeConflict, "extend",
			"step %q has no stored deadline; name the one to set: scheduleToClose or deadline", s.Key())
	}
	at, known := stored[limit]
	if !known {
		return m.refuse(CodeInvalid, "extend",
			"step %q has no stored %s deadline; name scheduleToClose, deadline or wait", s.Key(), limit)
	}
	to, err := m.extended(in, limit, at)
	if err != nil {
		return err
	}
	m.audit(in, s.ID)
	if to == 0 { // the limit is removed for good: it does not return with another attempt or after a pause
		m.removeLimit(s, limit)
	}
	m.emit(DeadlineMoved{Step: s.ID, Limit: limit, At: to})
	return nil
}

func (m *machine) removeLimit(s *Step, kind policy.LimitKind) {
	p := *s.Effective()
	p.Set(kind, nil)
	m.emit(StepPolicy{Step: s.ID, Policy: &p})
}

func (l RunLimit) shift(by time.Duration) RunLimit {
	if l.At != 0 {
		l.At = l.At.Add(by)
	}
	if l.Warn != 0 {
		l.Warn = l.Warn.Add(by)
	}
	return l
}
