package core

import (
	"slices"

	"github.com/pawl-dev/pawl/policy"
)

// failedStep reports whether a retry of the run restarts the step: it did not succeed, and the definition does not
// tolerate that.
func (m *machine) failedStep(s *Step) bool {
	if s.Dropped || s.Spec.Hook {
		return false
	}
	if !s.failed() {
		return false
	}
	return m.r.def.Tolerates == nil || !m.r.def.Tolerates(s)
}

// refuseFollowed refuses to open a run again that its chain has left behind.
func (m *machine) refuseFollowed() error {
	switch {
	case m.r.Phase.Closed() && m.r.compensated() && m.r.Unfinished():
		return m.refuse(CodeConflict, "retry",
			"the run is %s, and its compensation was not finished; retry the run to go on with that", m.r.Phase)
	case m.r.Phase.Closed() && m.r.compensated():
		return m.refuse(CodeConflict, "retry",
			"the run is %s, and its body has undone what it had done; restart it instead", m.r.Phase)
	}
	if m.r.Next == (RunID{}) {
		return nil
	}
	return m.refuse(CodeConflict, "retry",
		"the run is %s and its chain goes on with run %s; retry that one", m.r.Phase, m.r.Next)
}

// retryRun restarts the failed steps that made a run fail, or would. Of a run with a body those are the steps that the
// body's error came from; what the body decided after it had seen their failure is dropped. A run whose compensation
// was not finished goes on with that.
func (m *machine) retryRun(in Operation) error {
	if m.r.Next == (RunID{}) && m.r.compensated() && m.r.Unfinished() {
		return m.resumeCompensation(in)
	}
	if err := m.refuseFollowed(); err != nil {
		return err
	}
	if !m.r.Phase.Closed() && m.r.Ending() {
		return m.refuse(CodeConflict, "retry", "the run is closing; wait until it has ended")
	}
	if m.r.hasBody() {
		ids, drop, err := m.rewind()
		if err == nil {
			m.audit(in, NoStep)
			m.restart(ids, drop)
		}
		return err
	}
	var ids []StepID
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; m.failedStep(s) && !m.toleratedGroup(s) {
			ids = append(ids, StepID(i))
		}
	}
	switch {
	case len(ids) == 0 && m.r.Phase.Closed():
		return m.refuse(CodeConflict, "retry", "the run is %s and has no failed step; restart it instead", m.r.Phase)
	case len(ids) == 0:
		return m.refuse(CodeConflict, "retry", "the run is %s and has no failed step", m.r.Phase)
	}
	m.audit(in, NoStep)
	m.restart(ids, nil)
	return nil
}

// toleratedGroup reports whether the step is an item of a group that has ended and is not restarted: it succeeded, or
// its failure is tolerated, so the item did not make the run fail.
func (m *machine) toleratedGroup(s *Step) bool {
	if s.Group == NoStep {
		return false
	}
	g := &m.r.Steps[s.Group]
	return g.Phase.Closed() && !m.failedStep(g)
}

// retryStep restarts one failed step, and with a group its failed items, with an item its group.
func (m *machine) retryStep(in Operation, s *Step) error {
	if err := m.refuseFollowed(); err != nil {
		return err
	}
	if s.Spec.Hook {
		return m.refuse(CodeConflict, "retry",
			"step %q is a hook, which runs again when the run that was retried ends", s.Key())
	}
	if !s.failed() {
		return m.refuse(CodeConflict, "retry",
			"step %q is %s; only a failed, timed-out or cancelled step can be retried", s.Key(), s.Phase)
	}
	if s.Stopping {
		return m.refuse(CodeConflict, "retry",
			"the last attempt of step %q is still being stopped; try again when it has gone", s.Key())
	}
	if !m.r.Phase.Closed() && m.r.Ending() {
		return m.refuse(CodeConflict, "retry", "the run is closing; wait until it has ended")
	}
	if m.r.hasBody() {
		ids, drop, err := m.rewindTo(s)
		if err == nil {
			m.audit(in, s.ID)
			m.restart(ids, drop)
		}
		return err
	}
	ids := []StepID{s.ID}
	if s.Group != NoStep && m.r.Steps[s.Group].Phase.Closed() {
		ids = append(ids, s.Group)
	}
	if s.Spec.Kind == KindGroup {
		for i := range m.r.Steps {
			if it := &m.r.Steps[i]; it.Group == s.ID && m.failedStep(it) {
				ids = append(ids, it.ID)
			}
		}
	}
	m.audit(in, s.ID)
	m.restart(ids, nil)
	return nil
}

// reopenedExecution returns the execution limit of a run that is opened again. One that has passed would end the
// retry at once, so it starts again where it is a duration, and is gone where it was an instant. The limits of the
// definition apply again then: a child run begins with the limit of its parent where that is the earlier one, and
// would be left without any. For example, a child by cron whose own limit is 3h would begin again and again for ever.
func (m *machine) reopenedExecution() RunLimit {
	l := m.r.Execution
	if l.At == 0 || l.At > m.now {
		return l
	}
	if l.After > 0 {
		return l.fresh(m.now)
	}
	rules := m.r.def.RunRules()
	amount, instant := limitFrom(rules.Execution, m.now).ifAhead(m.now), limitFrom(rules.Deadline, m.now).ifAhead(m.now)
	if instant.At != 0 && (amount.At == 0 || instant.At < amount.At) {
		return instant
	}
	return amount
}

// FailureUpstream is the type of a group's failure which only says that what its items need did not succeed. A retry
// opens such a group again, so that its items are decided again.
const FailureUpstream = "upstream"

// waitingGroups lists the closed groups that a retry opens again although nobody named them: an item of them was
// skipped because of what failed, or would have been.
func (m *machine) waitingGroups(named []StepID) []StepID {
	reopen := map[StepID]bool{}
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if s.Group != NoStep && s.Upstream && !s.Dropped {
			reopen[s.Group] = true
		}
		if s.Spec.Kind == KindGroup && s.Phase == StepFailed && s.Failure != nil && s.Failure.Type == FailureUpstream {
			reopen[s.ID] = true
		}
	}
	var out []StepID
	for i := range m.r.Steps {
		s := &m.r.Steps[i]
		if reopen[s.ID] && s.Phase.Closed() && !s.Dropped && !slices.Contains(named, s.ID) {
			out = append(out, s.ID)
		}
	}
	return out
}

// restart gives steps a fresh budget and fresh deadlines and puts them back to work. A closed run is opened again,
// with fresh deadlines of its own. What is dropped is decided anew, as are hooks and skipped dependants.
func (m *machine) restart(ids, drop []StepID) {
	ids = append(ids, m.waitingGroups(ids)...)
	drop = append(drop, m.droppedByRetry()...)
	if m.r.Phase.Closed() {
		rec := RunReopened{Execution: m.reopenedExecution(), Deadline: m.r.Deadline.fresh(m.now).ifAhead(m.now)}
		if rec.Queued = m.r.hasQueue(); rec.Queued {
			rec.Deadline = rec.Deadline.unbegun()
		}
		m.reopen(rec, drop)
	} else if len(drop) > 0 {
		m.reopen(RunReopened{Execution: m.r.Execution, Deadline: m.r.Deadline}, drop)
	}
	m.restartSteps(ids)
}

// restartSteps gives steps a fresh budget and fresh deadlines, in a run that is open.
func (m *machine) restartSteps(ids []StepID) {
	for _, id := range ids {
		s := &m.r.Steps[id]
		if l := s.Effective().Get(policy.LimitDeadline); l != nil && l.At != 0 && l.At <= m.now {
			m.removeLimit(s, policy.LimitDeadline)
		}
		m.emit(StepReset{
			Step: id, Budget: true, Restart: true, ScheduleToClose: stepDeadline(s.Effective().ScheduleToClose, m.now),
			Deadline: stepDeadline(s.Effective().Deadline, 0), NextAt: m.restartAt(s),
		})
	}
	m.r.forgetDecider() // the decisions on the failure are made again
	for _, id := range ids {
		s := &m.r.Steps[id]
		switch s.Spec.Kind {
		case KindTask, KindChild:
			m.readyAgain(id)
		case KindWait:
			if s.Deadline == 0 || s.Deadline > m.now {
				m.takeKept(s)
			}
		case KindSleep, KindGroup:
		}
	}
}

// reopen drops steps. What they did to the run's labels and events is undone: it is decided anew as well.
func (m *machine) reopen(rec RunReopened, drop []StepID) {
	rec.Drop, rec.Labels = drop, m.r.unlabel(drop)
	back := m.r.takenBy(drop)
	m.emit(rec)
	for _, kept := range back {
		m.emit(kept)
	}
}

// restartAt returns what a restarted step waits for. The length of a sleep and the limit of a wait count from now; a
// sleep until an instant keeps it.
func (m *machine) restartAt(s *Step) Time {
	switch s.Spec.Kind {
	case KindWait:
		return stepDeadline(s.Effective().Wait, m.now)
	case KindSleep:
		if s.Until {
			return s.NextAt
		}
		return m.now.Add(s.NextAt.Sub(s.ScheduledAt))
	default:
		return 0
	}
}

// droppedByRetry lists the steps whose being skipped, or whose running as a hook, followed from the failure.
func (m *machine) droppedByRetry() []StepID {
	var drop []StepID
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; !s.Dropped && (s.Upstream || (s.Spec.Hook && s.Phase.Closed())) {
			drop = append(drop, s.ID)
		}
	}
	return drop
}
