package core

import (
	"github.com/pawl-dev/pawl/policy"
)

// tick does everything that is due, in the order of the instants. At one instant the run's own limits come first.
func (m *machine) tick() {
	for !m.r.Phase.Closed() && !m.r.Elsewhere() {
		if m.r.waitsForStart() && !m.limitDue() {
			m.tickPending()
			return
		}
		t, ok := m.r.wakes.first()
		run := m.r.runLimit()
		switch {
		case m.r.Compensating() && m.r.Stop.Until <= m.now && (!ok || m.r.Stop.Until <= t.at):
			m.expireCompensation()
			return
		case run.at != 0 && run.at <= m.now && (!ok || run.at <= t.at || m.r.waitsForStart()):
			m.expireRun(run)
			return
		case ok && t.at <= m.now:
			m.fire(&m.r.Steps[t.step])
		default:
			m.warnRun()
			return
		}
	}
}

// tickPending processes what is due in a run that waits for its start or its queue, and whose limits have not expired.
func (m *machine) tickPending() {
	if !m.r.turns() && !m.r.InQueue() && m.r.StartAt <= m.now {
		m.beginDelayed()
		return
	}
	m.warnRun()
}

func (m *machine) limitDue() bool {
	d := m.r.runLimit()
	return d.at != 0 && d.at <= m.now
}

// warnRun gives the run's deadline warnings.
func (m *machine) warnRun() {
	if m.r.limitWake() == 0 || m.r.Stop != nil {
		return
	}
	if w := m.r.Execution.Warn; w != 0 && w <= m.now {
		m.emit(StepWarned{Step: NoStep, Limit: policy.LimitExecution})
	}
	if w := m.r.Deadline.Warn; w != 0 && w <= m.now {
		m.emit(StepWarned{Step: NoStep, Limit: policy.LimitRun})
	}
}

// fire processes the step's timer: a warning, an expiry, the end of a sleep or of a backoff.
func (m *machine) fire(s *Step) {
	d := m.r.stepLimit(s)
	if m.warn(s, d) {
		return
	}
	sleeps := s.Phase == StepSuspended && s.Spec.Kind == KindSleep
	due := d.at != 0 && d.at <= m.now
	switch {
	case sleeps && s.NextAt <= m.now && (!due || s.NextAt < d.at):
		m.emit(StepEnded{Step: s.ID, Phase: StepSucceeded})
	case s.Phase == StepBackingOff && !s.Spec.Detached && m.runLimitFirst(d):
		m.expireRun(m.r.runLimit())
	case due:
		m.expire(s, d.limit)
	case s.Phase == StepBackingOff:
		m.readyAgain(s.ID)
	}
}

// warn gives the due warnings of the step, all at once: the first one covers its time up to now.
func (m *machine) warn(s *Step, d due) bool {
	warned := false
	for _, w := range m.r.warnings(s) {
		if w.at <= m.now && (d.at == 0 || w.at < d.at) {
			m.emit(StepWarned{Step: s.ID, Limit: w.limit})
			warned = true
		}
	}
	return warned
}

// runLimitFirst reports whether the run's own limit has come, at or before that of the step. After a long downtime a
// backoff and both limits may be due at once; then no further attempt begins.
func (m *machine) runLimitFirst(d due) bool {
	run := m.r.runLimit()
	return run.at != 0 && run.at <= m.now && (d.at == 0 || run.at <= d.at)
}

// expire fires a limit of the step: the attempt ends, its work is stopped, and the policy judges what follows.
func (m *machine) expire(s *Step, kind policy.LimitKind) {
	f := m.r.timeout(s, kind, nil)
	if kind == policy.LimitScheduleToClose || kind == policy.LimitDeadline {
		f.Cause = s.Failure // it spans attempts: the last one explains where the time went
	}
	switch {
	case s.Phase == StepScheduled:
		m.effect(Withdraw{Step: s.ID, Attempt: s.Attempt})
		m.attemptEnded(s, f, nil, false)
	case s.Phase == StepRunning, s.Spec.Kind == KindChild && s.Started != 0:
		m.revoke(s, policy.KindTimeout)
		m.attemptEnded(s, f, nil, true)
	default:
		// There is no attempt to judge: the step is between attempts, or it is a sleep, a wait or a group.
		if kind == policy.LimitWait {
			f.Type = "deadline_exceeded"
		}
		phase := expiredPhase(s.Effective(), kind)
		m.emit(StepEnded{Step: s.ID, Phase: phase, Reason: policy.ReasonTimeoutNotRetryable, Failure: f})
		if s.Spec.Kind == KindGroup {
			m.stopItems(s.ID)
		}
	}
}

// revoke stops the work of a running attempt.
func (m *machine) revoke(s *Step, why policy.Kind) {
	if s.Spec.Kind == KindChild {
		m.effect(StopChild{Child: s.Child, Op: OpCancel})
		return
	}
	m.effect(Revoke{Step: s.ID, Attempt: s.Attempt, Reason: why})
}

// stop ends an open step because of a cancel, an operator, or the end of its run or group.
func (m *machine) stop(s *Step, phase StepPhase, reason policy.Reason, f *policy.Failure) {
	ended, why := f, policy.KindCancelled
	if f == nil {
		ended = cancelled("stopped by an operator")
	} else if f.Kind == policy.KindTimeout {
		why = policy.KindTimeout
	}
	switch {
	case s.Phase == StepScheduled:
		m.effect(Withdraw{Step: s.ID, Attempt: s.Attempt})
		m.emit(AttemptEnded{Step: s.ID, Failure: ended})
	case s.Phase == StepRunning, s.Spec.Kind == KindChild && s.Started != 0:
		m.revoke(s, why)
		alone := s.Spec.Kind == KindChild && m.r.Answers() // nobody waits until that has stopped
		m.emit(AttemptEnded{Step: s.ID, Failure: ended, Stopping: !alone})
	}
	m.emit(StepEnded{Step: s.ID, Phase: phase, Reason: reason, Failure: f})
	if s.Spec.Kind == KindGroup {
		m.stopItems(s.ID)
	}
}

// expireRun ends a run whose deadline has come: no new work, open steps time out with it, its body may undo its work,
// hooks run, then it ends.
func (m *machine) expireRun(d due) {
	for i := range m.r.Steps {
		if s := &m.r.Steps[i]; !s.Phase.Closed() && !s.Spec.Detached {
			f := m.r.timeout(s, d.limit, s.Failure)
			m.stop(s, StepTimedOut, policy.ReasonTimeoutNotRetryable, f)
		}
	}
	m.stopRun(RunTimedOut, m.r.timeout(nil, d.limit, nil))
}
