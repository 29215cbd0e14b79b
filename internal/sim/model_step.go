package sim

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// takeStep folds the records of steps and attempts.
func (m *runModel) takeStep(rec core.Record) {
	switch rec := rec.(type) {
	case core.StepBegan:
		m.begin(rec)
	case core.StepOmitted:
		m.steps = append(m.steps, stepModel{spec: rec.Spec, closed: true, phase: rec.Phase, group: rec.Group})
	case core.AttemptReady:
		m.ready(&m.steps[rec.Step], int(rec.Step))
	case core.AttemptStarted:
		m.start(&m.steps[rec.Step], int(rec.Step), rec)
	case core.AttemptBeat:
		s := &m.steps[rec.Step]
		m.outside = true
		if !s.live || rec.At > m.at {
			m.bad(OneAttempt, "a sign of life of step %s, whose attempt does not run", m.name(int(rec.Step)))
		}
		if rec.Output {
			s.output = max(s.output, rec.At)
		} else {
			s.beat = max(s.beat, rec.At)
			if rec.Details != nil {
				s.losses.last = string(rec.Details)
			}
		}
	case core.AttemptEnded:
		m.endAttempt(&m.steps[rec.Step], int(rec.Step), rec)
	case core.AttemptStopped:
		s := &m.steps[rec.Step]
		m.outside = true
		if !s.stopping {
			m.bad(EndsOnce, "an attempt of step %s stops that was not stopping", m.name(int(rec.Step)))
		}
		s.stopping = false
		if rec.Abandoned {
			s.last = core.RunID{} // a child run that was left to itself
		}
	case core.StepEnded:
		m.endStep(&m.steps[rec.Step], int(rec.Step), rec)
	case core.StepReset:
		m.reset(&m.steps[rec.Step], int(rec.Step), rec)
	case core.StepPolicy:
		m.needs(core.OpSetPolicy, "a policy is replaced", core.OpExtend, core.OpRetryRun, core.OpRetryStep)
		s := &m.steps[rec.Step]
		s.policy, s.allowed = rec.Policy, s.counted
		if s.backing {
			s.allowed++ // the next attempt was granted under the former policy
		}
	default: // of the run
	}
}

// working checks that the run is in a state in which something new may begin.
func (m *runModel) working(what string, hook bool) {
	switch {
	case m.closed:
		m.bad(TerminalOnce, "%s in a run that has ended", what)
	case m.pending && !m.closing:
		m.bad(Recorded, "%s before the run's start", what)
	case m.paused != 0 && !m.closing:
		m.bad(Recorded, "%s in a paused run", what)
	case m.cancelled && !hook:
		m.bad(Recorded, "%s after the run's cancel was asked", what)
	case m.closing && !hook:
		m.bad(Recorded, "%s while the run closes", what)
	}
}

func (m *runModel) begin(rec core.StepBegan) {
	spec := m.a.shadow.Steps[len(m.steps)].Spec // records of flows carry the ordinal only
	s := stepModel{spec: spec, policy: &spec.Policy, kind: spec.Kind, group: rec.Group, toClose: rec.ScheduleToClose, deadline: rec.Deadline, next: rec.NextAt}
	m.working("a step begins", spec.Hook)
	instant := core.Time(0)
	if d := spec.Policy.Deadline; d != nil {
		instant = d.At
	}
	if rec.Deadline != instant {
		m.bad(FixedDeadline, "step %s begins with the deadline %s, the one it has is %s", spec.Name, offset(rec.Deadline), offset(instant))
	}
	if want := deadlineOf(spec.Policy.ScheduleToClose, m.at); rec.ScheduleToClose != want {
		m.bad(FixedDeadline, "step %s is to be closed by %s, its limit says %s", spec.Name, offset(rec.ScheduleToClose), offset(want))
	}
	switch spec.Kind {
	case core.KindTask:
		s.attempt, s.counted, s.ready, s.readyAt = 1, 1, true, m.at
		s.attempts = append(s.attempts, attemptModel{ready: m.at})
	case core.KindWait:
		if want := deadlineOf(spec.Policy.Wait, m.at); rec.NextAt != want {
			m.bad(FixedDeadline, "wait %s ends at %s, its limit says %s", spec.Name, offset(rec.NextAt), offset(want))
		}
	default: // nothing of its own starts with it
	}
	m.steps = append(m.steps, s)
}

// next attempt: counts it and checks that it may be.
func (m *runModel) number(s *stepModel, i int) {
	m.working("an attempt of step "+m.name(i), s.spec.Hook)
	if s.closed {
		m.bad(Finished, "an attempt of step %s, which is %s", m.name(i), s.phase)
	}
	if s.live || s.ready {
		m.bad(OneAttempt, "another attempt of step %s while one lives", m.name(i))
	}
	if s.stopping {
		m.bad(OneAttempt, "another attempt of step %s before the last one's work has stopped", m.name(i))
	}
	s.attempt++
	s.counted++
	limit := 1
	if r := s.policy.Retry; r != nil {
		limit = r.MaxAttempts
	}
	if limit >= 0 && s.counted > max(limit, s.allowed) {
		m.bad(Counted, "attempt %d of step %s is the %dth that counts, the limit is %d", s.attempt, m.name(i), s.counted, limit)
	}
	if s.backing {
		if !m.operated && !m.outside {
			m.timer(s.next, "the next attempt of step "+m.name(i))
		} else if s.next > m.at {
			m.bad(DueOrder, "the next attempt of step %s begins at %s, before %s", m.name(i), offset(m.at), offset(s.next))
		}
	}
	s.backing, s.began = false, false
	s.attempts = append(s.attempts, attemptModel{ready: m.at})
}

func (m *runModel) ready(s *stepModel, i int) {
	if !s.backing {
		m.bad(OneAttempt, "an attempt of step %s is ready, and the step was not backing off", m.name(i))
	}
	m.number(s, i)
	s.losses.found = s.losses.last
	s.ready, s.readyAt, s.started, s.beat, s.output, s.next = true, m.at, 0, 0, 0, 0
}

func (m *runModel) start(s *stepModel, i int, rec core.AttemptStarted) {
	m.b.attempts++
	if s.kind == core.KindTask {
		m.working("an attempt of step "+m.name(i)+" starts", s.spec.Hook)
		if !s.ready || s.closed {
			m.bad(OneAttempt, "an attempt of step %s starts that was not ready", m.name(i))
		}
		if d := m.effective(s); d != 0 && d <= m.at {
			m.bad(NotAfter, "attempt %d of step %s starts at %s, its deadline is %s", s.attempt, m.name(i), offset(m.at), offset(d))
		}
	} else {
		m.number(s, i)
		// One that somebody has opened again is that one's affair, with what follows it.
		if open := m.b.openEnd(s.last); open != nil && !m.b.reopened(s.last) {
			m.bad(OneAttempt, "attempt %d of step %s starts while run %s of the one before is open", s.attempt, m.name(i), open.id)
		}
		s.readyAt, s.next, s.child, s.last = m.at, 0, rec.Child, rec.Child
	}
	m.outside = m.outside || s.kind == core.KindTask
	want := core.Time(0)
	if s.deadline == 0 {
		want = deadlineOf(s.policy.Deadline, m.at)
	}
	if rec.Deadline != want {
		m.bad(FixedDeadline, "the start of attempt %d sets the deadline of step %s to %s, not %s", s.attempt, m.name(i), offset(rec.Deadline), offset(want))
	}
	if rec.Deadline != 0 {
		s.deadline = rec.Deadline
		if rec.Deadline <= m.at {
			m.bad(NotAfter, "attempt %d of step %s starts at %s, the deadline it sets is %s", s.attempt, m.name(i), offset(m.at), offset(rec.Deadline))
		}
	}
	s.ready, s.live, s.began, s.started, s.beat, s.output, s.told = false, true, true, m.at, 0, 0, s.policy
	if n := len(s.attempts); n > 0 {
		s.attempts[n-1].started = m.at
	}
}

func (m *runModel) endAttempt(s *stepModel, i int, rec core.AttemptEnded) {
	if !s.live && !s.ready && (s.kind == core.KindTask || s.attempt > 0) {
		m.bad(EndsOnce, "attempt %d of step %s ends a second time", s.attempt, m.name(i))
	}
	if s.closed {
		m.bad(Finished, "an attempt of step %s ends, which is %s", m.name(i), s.phase)
	}
	f := rec.Failure
	switch {
	case f != nil && f.Kind == policy.KindTimeout && f.Limit != policy.LimitNone:
		m.expire(s, i, f.Limit)
	default:
		m.outside = true
	}
	if f != nil && f.Kind == policy.KindLost {
		s.counted--
	}
	m.lose(s, i, rec)
	if n := len(s.attempts); n > 0 {
		s.attempts[n-1].ended = m.at
	}
	s.live, s.ready, s.stopping, s.endedNow, s.started, s.child = false, false, rec.Stopping, true, 0, core.RunID{}
	if rec.Stopping && !s.began {
		m.bad(OneAttempt, "an attempt of step %s is being stopped that never started", m.name(i))
	}
	if !rec.Retry {
		return
	}
	s.backing, s.next = true, rec.NextAt
	if rec.NextAt < m.at {
		m.bad(DueOrder, "step %s is retried at %s, in the past", m.name(i), offset(rec.NextAt))
	}
	d := m.spanning(s)
	if m.paused != 0 {
		d = m.runLimit() // the step's own begin anew when the pause ends
	}
	if d != 0 && rec.NextAt >= d {
		m.bad(NotAfter, "step %s is retried at %s, its deadline is %s", m.name(i), offset(rec.NextAt), offset(d))
	}
}

func (m *runModel) endStep(s *stepModel, i int, rec core.StepEnded) {
	if s.closed {
		m.bad(Finished, "step %s ends a second time, as %s, it is %s", m.name(i), rec.Phase, s.phase)
	}
	if s.live || s.ready {
		m.bad(EndsOnce, "step %s ends while its attempt lives", m.name(i))
	}
	f := rec.Failure
	switch {
	case s.endedNow || rec.Signal != "":
		m.outside = m.outside || rec.Signal != ""
	case s.kind == core.KindSleep && rec.Phase == core.StepSucceeded && !m.operated:
		m.timer(s.next, "sleep "+m.name(i)+" ends")
	case f != nil && f.Kind == policy.KindTimeout && f.Limit != policy.LimitNone && rec.Reason == policy.ReasonTimeoutNotRetryable && s.group == core.NoStep:
		m.expire(s, i, f.Limit)
	default:
		m.outside = true
	}
	if rec.Signal != "" {
		m.taken(rec)
	}
	if rec.Reason == policy.ReasonWorkerLost {
		m.stoppedFor(s, i)
	}
	s.closed, s.phase, s.backing = true, rec.Phase, false
	if s.kind != core.KindSleep {
		s.next = 0
	}
}

func (m *runModel) reset(s *stepModel, i int, rec core.StepReset) {
	m.needs(core.OpResume, "step "+m.name(i)+" is reset", core.OpRetryRun, core.OpRetryStep, core.OpNow)
	if m.op == core.OpNow && (rec.ScheduleToClose != s.toClose || rec.Deadline != s.deadline) {
		m.bad(FixedDeadline, "an end of the backoff moves the deadlines of step %s", m.name(i))
	}
	s.toClose, s.deadline = rec.ScheduleToClose, rec.Deadline
	if rec.NextAt != 0 {
		s.next = rec.NextAt
	}
	if rec.Budget {
		s.counted, s.allowed = 0, 0
		s.losses.row, s.losses.counts, s.losses.others = 0, 0, 0
	}
	if s.ready {
		s.readyAt = m.at
	}
	if !rec.Restart {
		if s.closed {
			m.bad(Finished, "step %s is reset, which is %s", m.name(i), s.phase)
		}
		return
	}
	if !s.closed || s.live {
		m.bad(OneAttempt, "step %s restarts while an attempt lives", m.name(i))
	}
	s.closed = false
	if s.kind == core.KindTask || s.kind == core.KindChild {
		s.backing, s.next = true, m.at
	}
}

// expire takes the expiry of a limit. An instant that had passed before the first attempt is found when that would start,
// in no order.
func (m *runModel) expire(s *stepModel, i int, kind policy.LimitKind) {
	if kind == policy.LimitDeadline && s.deadline == 0 {
		m.outside = true
	}
	m.timer(m.limitOf(s, kind), "the "+kind.String()+" limit of step "+m.name(i)+" expires")
}

// limitOf is when a limit ends the step or its attempt; zero: it does not.
func (m *runModel) limitOf(s *stepModel, kind policy.LimitKind) core.Time {
	after := func(l *policy.Limit, from core.Time) core.Time {
		if l == nil || from == 0 {
			return 0
		}
		return from.Add(l.After)
	}
	switch kind {
	case policy.LimitExecution:
		return m.execution
	case policy.LimitRun:
		return m.limit
	case policy.LimitScheduleToClose:
		return s.toClose
	case policy.LimitDeadline:
		return s.deadline
	case policy.LimitScheduleToStart:
		return after(s.policy.ScheduleToStart, s.readyAt)
	case policy.LimitStartToClose:
		return after(s.policy.StartToClose, s.started)
	case policy.LimitHeartbeat:
		return after(laxer(s.told.Heartbeat, s.policy.Heartbeat), max(s.started, s.beat))
	case policy.LimitInactivity:
		return after(laxer(s.told.Inactivity, s.policy.Inactivity), max(s.started, s.beat, s.output))
	default:
		return s.next
	}
}

// laxer is the limit on silence of an attempt whose policy was replaced: its worker knows the former one.
func laxer(told, is *policy.Limit) *policy.Limit {
	switch {
	case told == nil || is == nil:
		return nil
	case told.After > is.After:
		return told
	default:
		return is
	}
}

// runLimit is the run's own deadline where it counts.
func (m *runModel) runLimit() core.Time {
	if m.closing || (m.paused != 0 && m.stopClock) {
		return 0
	}
	return policy.Earliest(m.execution, m.limit)
}

// spanning is what bounds all attempts of a step.
func (m *runModel) spanning(s *stepModel) core.Time {
	return policy.Earliest(m.runLimit(), policy.Earliest(s.toClose, s.deadline))
}

// effective is what bounds the step's attempt now.
func (m *runModel) effective(s *stepModel) core.Time {
	d := m.spanning(s)
	if s.ready {
		return policy.Earliest(d, m.limitOf(s, policy.LimitScheduleToStart))
	}
	return policy.Earliest(d, m.limitOf(s, policy.LimitStartToClose))
}

// wants is when the run wants attention by its own limits, sleeps and backoffs; warnings are not counted. Zero: never.
func (m *runModel) wants() core.Time {
	switch {
	case m.closed:
		return 0
	case m.pending && !m.closing:
		return policy.Earliest(m.startAt, m.runLimit())
	}
	at := m.runLimit()
	for i := range m.steps {
		s := &m.steps[i]
		if s.closed || (m.paused != 0 && !s.live) {
			continue
		}
		at = policy.Earliest(at, policy.Earliest(s.toClose, s.deadline))
		switch {
		case s.ready:
			at = policy.Earliest(at, m.limitOf(s, policy.LimitScheduleToStart))
		case s.live:
			for _, k := range []policy.LimitKind{policy.LimitStartToClose, policy.LimitHeartbeat, policy.LimitInactivity} {
				at = policy.Earliest(at, m.limitOf(s, k))
			}
		case m.paused == 0 && !s.stopping && (s.backing || s.kind == core.KindSleep || s.kind == core.KindWait):
			at = policy.Earliest(at, s.next)
		}
	}
	return at
}

func deadlineOf(l *policy.Limit, from core.Time) core.Time {
	switch {
	case l == nil:
		return 0
	case l.At != 0:
		return l.At
	default:
		return from.Add(l.After)
	}
}
