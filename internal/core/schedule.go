package core

import (
	"github.com/pawl-dev/pawl/policy"
)

// schedule begins a step.
func (m *machine) schedule(cmd Schedule) {
	spec, p := cmd.Spec, &cmd.Spec.Policy
	replaced := m.r.itemPolicy(cmd.Group)
	if replaced == nil {
		replaced = cmd.Policy
	}
	if replaced != nil {
		p = replaced
	}
	if p.Retry != nil && p.Retry.MaxAttempts == 0 {
		m.emit(StepOmitted{
			Spec: spec, Item: cmd.Item, Group: cmd.Group, Reason: "maxAttempts is 0", Phase: StepSkipped,
			Saw: idsOf(m.r, cmd.Saw), After: idsOf(m.r, cmd.After),
		})
		return
	}
	rec := StepBegan{
		Spec: spec, Item: cmd.Item, Group: cmd.Group,
		ScheduleToClose: stepDeadline(p.ScheduleToClose, m.now), Deadline: stepDeadline(p.Deadline, 0),
		NextAt: cmd.Until, Until: cmd.Until != 0, ShareKey: cmd.Key,
		Saw: idsOf(m.r, cmd.Saw), After: idsOf(m.r, cmd.After),
	}
	if spec.Kind == KindWait {
		rec.NextAt = stepDeadline(p.Wait, m.now)
	}
	if cmd.For > 0 {
		rec.NextAt = m.now.Add(cmd.For)
	}
	m.emit(rec)
	s := &m.r.Steps[len(m.r.Steps)-1]
	if replaced != nil {
		m.emit(StepPolicy{Step: s.ID, Policy: replaced})
	}
	if cmd.Failure != nil {
		f := *cmd.Failure
		f.NonRetryable = true // a step that cannot begin now cannot begin later: its input stays the same
		m.attemptEnded(s, &f, nil, false)
		return
	}
	if s.Deadline != 0 && s.Deadline <= m.now {
		m.expire(s, policy.LimitDeadline)
		return
	}
	switch spec.Kind {
	case KindTask:
		m.effect(m.r.offer(s))
	case KindWait:
		m.takeKept(s)
	case KindChild:
		m.startChild(s)
	case KindSleep:
		if s.NextAt <= m.now {
			m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded})
		}
	case KindGroup, KindSend:
	}
}

// firstDeadline returns the step's deadline when its first attempt starts now; zero if it has one already or none.
func (m *machine) firstDeadline(s *Step) Time {
	if s.Deadline != 0 {
		return 0
	}
	return stepDeadline(s.Effective().Deadline, m.now)
}

// startChild starts an attempt of a child step: a run of its own.
func (m *machine) startChild(s *Step) {
	child := m.r.derive(uint64(s.ID)<<32|uint64(s.Attempt+1), m.now)
	if s.Spec.Spread {
		child.spread()
	}
	if of := m.r.def.ChildID; of != nil {
		child.setKey(KeyOfWorkflowID(of(s)))
	}
	m.emit(AttemptStarted{Step: s.ID, Deadline: m.firstDeadline(s), Child: child})
	payload, failure := m.r.decide().Task(m.r, s, m.now)
	if failure != nil {
		m.attemptEnded(s, failure, nil, false)
		return
	}
	m.effect(StartChild{Step: s.ID, Attempt: s.Attempt, Child: child, Payload: payload, Execution: m.r.inherited(s)})
}

// inherited returns the deadline that a child run has from its parent: nothing outlives its parent. The children of a
// body that is asked in writing may do so, and have none.
func (r *Run) inherited(s *Step) RunLimit {
	d := r.binding(s)
	if d.at == 0 || r.Answers() {
		return RunLimit{}
	}
	return RunLimit{At: d.at, Origin: "parent run " + r.ID.String() + ", " + d.limit.String()}
}

// propagateDeadlines carries out an operation, and tells it to the child runs whose inherited deadline it moved. A
// child must not outlive its parent, and must not end at a deadline that its parent no longer has.
func (m *machine) propagateDeadlines(operation func() error) error {
	was := map[RunID]Time{}
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; s.Child != (RunID{}) {
			was[s.Child] = m.r.inherited(s).At
		}
	}
	if err := operation(); err != nil || len(was) == 0 {
		return err
	}
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		before, known := was[s.Child]
		if is := m.r.inherited(s).At; known && is != before {
			m.effect(BoundChild{Child: s.Child, Was: before, Is: is})
		}
	}
	return nil
}

// Inherits returns the new execution deadline of a child run when the deadline of its parent, which it inherits, moves
// from was to is; FarFuture: it has none any more. One that has passed is due at once by the child's own clock, since
// clocks go back. False: it stays, because the child has another one: an earlier one of its own, or one from an
// operator.
func (r *Run) Inherits(was, is, now Time) (Time, bool) {
	if r.Execution.At != was || r.Execution.After != 0 {
		return 0, false
	}
	rules := r.rules()
	if own := rules.Execution; own != nil {
		is = is.Earlier(r.CreatedAt.Add(own.After))
	}
	if d := rules.Deadline; d != nil {
		is = is.Earlier(d.At)
	}
	switch is {
	case was:
		return 0, false
	case 0:
		return policy.FarFuture, true
	default:
		return max(is, now+1, r.last+1), true
	}
}

// finishGroup ends a group and its open items.
func (m *machine) finishGroup(cmd Finish) {
	s := &m.r.Steps[cmd.Step]
	if s.Phase.Closed() {
		return
	}
	if cmd.Failure == nil {
		m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded, Output: cmd.Output})
	} else {
		m.emit(StepEnded{Step: s.ID, Phase: failedPhase(s, cmd.Failure), Output: cmd.Output, Failure: cmd.Failure})
	}
	m.stopItems(cmd.Step)
}

// stopItems cancels the open items of a group that has ended.
func (m *machine) stopItems(group StepID) {
	if m.r.Steps[group].items == 0 {
		return
	}
	why := "its loop has ended"
	if f := m.r.Steps[group].Failure; f != nil && f.Kind == policy.KindCancelled && f.Message != "" {
		why = f.Message // the cause of the loop is the cause of its items
	}
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; s.Group == group && !s.Phase.Closed() {
			m.stop(s, StepCancelled, policy.ReasonCancelled, cancelled(why))
		}
	}
}

// readyAgain begins the next attempt of a step whose backoff is over and whose last attempt has stopped.
func (m *machine) readyAgain(id StepID) {
	s := &m.r.Steps[id]
	if s.Phase != StepBackingOff || s.Stopping || s.NextAt > m.now || m.r.PausedAt != 0 || m.r.waitsForStart() {
		return
	}
	if m.r.Elsewhere() {
		return
	}
	if s.Spec.Kind == KindChild {
		m.startChild(s)
		return
	}
	m.emit(AttemptReady{Step: id})
	m.effect(m.r.offer(&m.r.Steps[id]))
}
