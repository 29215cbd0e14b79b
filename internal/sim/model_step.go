package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// applyStep applies the records of steps and attempts.
func (m *runModel) applyStep(rec core.Record) {
	switch rec := rec.(type) {
	case core.StepBegan:
		m.begin(rec)
	case core.StepOmitted:
		m.setLabels(rec)
		m.omit(rec)
	case core.AttemptReady:
		m.ready(&m.steps[rec.Step], int(rec.Step))
	case core.AttemptHeld:
		s := &m.steps[rec.Step]
		m.notByTimer = true
		if !s.ready {
			m.fail(OneAttempt, "an attempt of step %s is held that does not wait", m.name(int(rec.Step)))
		}
		s.held = rec.Held
	case core.AttemptStarted:
		m.steps[rec.Step].held = core.Held{}
		m.steps[rec.Step].losses.group = groupAfter(m.steps[rec.Step].losses.row)
		m.checkRemote(&m.steps[rec.Step], int(rec.Step), rec)
		m.start(&m.steps[rec.Step], int(rec.Step), rec)
	case core.AttemptBeat:
		s := &m.steps[rec.Step]
		m.notByTimer = true
		// The next attempt continues from the last heartbeat of one that was told to stop.
		lastWords := s.stopping && s.backingOff && rec.Details != nil && !rec.Output
		if !s.live && !lastWords || rec.At > m.at {
			m.fail(OneAttempt, "a sign of life of step %s, which has no live attempt", m.name(int(rec.Step)))
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
		m.steps[rec.Step].held = core.Held{}
		m.checkRemote(&m.steps[rec.Step], int(rec.Step), rec)
		m.endAttempt(&m.steps[rec.Step], int(rec.Step), rec)
	case core.AttemptStopped:
		s := &m.steps[rec.Step]
		m.notByTimer = true
		if !s.stopping {
			m.fail(EndsOnce, "an attempt of step %s has stopped, and it was not being stopped", m.name(int(rec.Step)))
		}
		s.stopping = false
		if rec.Abandoned {
			s.last = core.RunID{} // the child run was abandoned
		}
	case core.StepEnded:
		m.endStep(&m.steps[rec.Step], int(rec.Step), rec)
	case core.StepReset:
		m.reset(&m.steps[rec.Step], int(rec.Step), rec)
	case core.StepPolicy:
		s := &m.steps[rec.Step]
		if s.itemPolicy {
			s.itemPolicy = false // it begins with the policy that an operator gave its group
		} else {
			m.checkOperation(core.OpSetPolicy, "a policy is replaced", core.OpExtend, core.OpRetryRun, core.OpRetryStep)
		}
		s.policy, s.allowed, s.replaced = rec.Policy, s.counted, true
		if s.backingOff {
			s.allowed++ // the former policy has granted the next attempt
		}
	default: // the record is about the run
	}
}

// checkMayBegin checks that something new may begin in the run.
func (m *runModel) checkMayBegin(what string, spec *core.StepSpec) {
	hook := spec.Hook || (spec.Detached && !m.closing)
	switch {
	case m.closed:
		m.fail(TerminalOnce, "%s in a run that has ended", what)
	case m.waitsForStart():
		m.fail(Recorded, "%s before the run's start", what)
	case m.paused != 0 && !m.closing:
		m.fail(Recorded, "%s in a paused run", what)
	case m.stopping && !hook:
		m.fail(Decided, "%s, which is not detached, after the run's body was asked to stop", what)
	case m.cancelled && !hook:
		m.fail(Recorded, "%s after a cancel of the run", what)
	case m.closing && !hook:
		m.fail(Recorded, "%s while the run is closing", what)
	}
}

// omit takes in a step that does not run.
func (m *runModel) omit(rec core.StepOmitted) {
	spec := m.a.state.Steps[len(m.steps)].Spec
	if rec.Group == core.NoStep {
		m.checkRule(spec, false, rec.Upstream)
	}
	m.steps = append(m.steps, stepModel{
		spec: spec, closed: true, phase: rec.Phase, group: rec.Group, afterFailure: rec.Upstream,
	})
}

func (m *runModel) begin(rec core.StepBegan) {
	spec := m.a.state.Steps[len(m.steps)].Spec // the records of flows have only the number of the spec, not the spec
	s := stepModel{
		spec: spec, policy: &spec.Policy, kind: spec.Kind, group: rec.Group,
		toClose: rec.ScheduleToClose, deadline: rec.Deadline, next: rec.NextAt,
	}
	if rec.Group != core.NoStep && m.steps[rec.Group].replaced {
		s.policy, s.itemPolicy = m.steps[rec.Group].policy, true
	}
	m.checkMayBegin("a step begins", spec)
	if rec.Group == core.NoStep {
		m.checkRule(spec, true, false)
	}
	instant := core.Time(0)
	if d := s.policy.Deadline; d != nil {
		instant = d.At
	}
	if rec.Deadline != instant {
		m.fail(FixedDeadline, "step %s begins with the deadline %s, but its policy says %s",
			spec.Name, offset(rec.Deadline), offset(instant))
	}
	if want := deadlineOf(s.policy.ScheduleToClose, m.at); rec.ScheduleToClose != want {
		m.fail(FixedDeadline, "step %s must close by %s, but its limit says %s",
			spec.Name, offset(rec.ScheduleToClose), offset(want))
	}
	switch spec.Kind {
	case core.KindTask:
		s.attempt, s.counted, s.ready, s.readyAt = 1, 1, true, m.at
		s.attempts = append(s.attempts, attemptModel{ready: m.at})
	case core.KindWait:
		if want := deadlineOf(s.policy.Wait, m.at); rec.NextAt != want {
			m.fail(FixedDeadline, "wait %s ends at %s, but its limit says %s",
				spec.Name, offset(rec.NextAt), offset(want))
		}
	default: // no attempt and no timer begins with the step
	}
	m.steps = append(m.steps, s)
}

// countAttempt counts the next attempt and checks that it may begin.
func (m *runModel) countAttempt(s *stepModel, i int) {
	m.checkMayBegin("an attempt of step "+m.name(i), s.spec)
	if s.closed {
		m.fail(Finished, "an attempt of step %s begins, and the step is %s", m.name(i), s.phase)
	}
	if s.live || s.ready {
		m.fail(OneAttempt, "an attempt of step %s begins while another one is live", m.name(i))
	}
	if s.stopping {
		m.fail(OneAttempt, "an attempt of step %s begins before the work of the last one has stopped", m.name(i))
	}
	s.attempt++
	s.counted++
	limit := 1
	if r := s.policy.Retry; r != nil {
		limit = r.MaxAttempts
	}
	if limit >= 0 && s.counted > max(limit, s.allowed) {
		m.fail(Counted, "attempt %d of step %s is number %d of those that count, and the limit is %d",
			s.attempt, m.name(i), s.counted, limit)
	}
	if s.backingOff {
		if !m.operated && !m.notByTimer {
			m.checkTimer(s.next, "the next attempt of step "+m.name(i))
		} else if s.next > m.at {
			m.fail(DueOrder, "the next attempt of step %s begins at %s, before %s",
				m.name(i), offset(m.at), offset(s.next))
		}
	}
	s.backingOff, s.began = false, false
	s.attempts = append(s.attempts, attemptModel{ready: m.at})
}

func (m *runModel) ready(s *stepModel, i int) {
	if !s.backingOff {
		m.fail(OneAttempt, "an attempt of step %s is ready, and the step was not backing off", m.name(i))
	}
	m.countAttempt(s, i)
	s.losses.found = s.losses.last
	s.ready, s.readyAt, s.started, s.beat, s.output, s.next = true, m.at, 0, 0, 0, 0
}

func (m *runModel) start(s *stepModel, i int, rec core.AttemptStarted) {
	m.ch.attempts++
	if s.kind == core.KindTask {
		m.checkMayBegin("an attempt of step "+m.name(i)+" starts", s.spec)
		if !s.ready || s.closed {
			m.fail(OneAttempt, "an attempt of step %s starts, and none was ready", m.name(i))
		}
		if d := m.attemptDeadline(s); d != 0 && d <= m.at {
			m.fail(NotAfter, "attempt %d of step %s starts at %s, but its deadline is %s",
				s.attempt, m.name(i), offset(m.at), offset(d))
		}
	} else {
		m.countAttempt(s, i)
		// If an operator has opened the former child run again, that run may be open beside the new one.
		if open := m.ch.openEnd(s.last); open != nil && !m.ch.reopened(s.last) {
			m.fail(OneAttempt, "attempt %d of step %s starts while run %s of an earlier attempt is open",
				s.attempt, m.name(i), open.id)
		}
		s.readyAt, s.next, s.child, s.last = m.at, 0, rec.Child, rec.Child
	}
	m.notByTimer = m.notByTimer || s.kind == core.KindTask
	want := core.Time(0)
	if s.deadline == 0 {
		want = deadlineOf(s.policy.Deadline, m.at)
	}
	if rec.Deadline != want {
		m.fail(FixedDeadline, "the start of attempt %d sets the deadline of step %s to %s, not %s",
			s.attempt, m.name(i), offset(rec.Deadline), offset(want))
	}
	if rec.Deadline != 0 {
		s.deadline = rec.Deadline
		if rec.Deadline <= m.at {
			m.fail(NotAfter, "attempt %d of step %s starts at %s, and sets the deadline %s",
				s.attempt, m.name(i), offset(m.at), offset(rec.Deadline))
		}
	}
	s.ready, s.live, s.began, s.started, s.beat, s.output, s.startPolicy = false, true, true, m.at, 0, 0, s.policy
	if n := len(s.attempts); n > 0 {
		s.attempts[n-1].started = m.at
	}
}

func (m *runModel) endAttempt(s *stepModel, i int, rec core.AttemptEnded) {
	if !s.live && !s.ready && (s.kind == core.KindTask || s.attempt > 0) {
		m.fail(EndsOnce, "attempt %d of step %s ends twice", s.attempt, m.name(i))
	}
	if s.closed {
		m.fail(Finished, "an attempt of step %s ends, and the step is %s already", m.name(i), s.phase)
	}
	f := rec.Failure
	switch {
	case f != nil && f.Kind == policy.KindTimeout && f.Limit != policy.LimitNone:
		m.expire(s, i, f.Limit)
	default:
		m.notByTimer = true
	}
	if f != nil && f.Kind == policy.KindLost {
		s.counted--
	}
	if s.kind == core.KindChild && !rec.Stopping && f != nil && f.Kind == policy.KindCancelled && m.cancelled {
		if child := m.ch.openEnd(s.last); child != nil && child.state.Parent.Close == core.ChildAbandon {
			s.last = core.RunID{} // it goes on alone
		}
	}
	m.countLoss(s, i, rec)
	if n := len(s.attempts); n > 0 {
		s.attempts[n-1].ended = m.at
	}
	s.live, s.ready, s.stopping, s.endedNow, s.started, s.child = false, false, rec.Stopping, true, 0, core.RunID{}
	if rec.Stopping && !s.began {
		m.fail(OneAttempt, "an attempt of step %s is being stopped, and it never started", m.name(i))
	}
	if !rec.Retry {
		return
	}
	m.checkDelay(s, i, rec)
	s.backingOff, s.next = true, rec.NextAt
	if rec.NextAt < m.at {
		m.fail(DueOrder, "the next attempt of step %s is at %s, in the past", m.name(i), offset(rec.NextAt))
	}
	d := m.stepDeadline(s)
	if m.paused != 0 {
		d = m.outerLimit(s) // the step gets fresh deadlines when the pause ends
	}
	if d != 0 && rec.NextAt >= d {
		m.fail(NotAfter, "the next attempt of step %s is at %s, but its deadline is %s",
			m.name(i), offset(rec.NextAt), offset(d))
	}
}

// checkDelay checks the delay before a retry: the policy's, with the jitter of this attempt of this step, so that a
// preview shows the same one; or what the worker asked for. Delays after losses are checked with the losses.
func (m *runModel) checkDelay(s *stepModel, i int, rec core.AttemptEnded) {
	if rec.Failure.Kind != policy.KindLost {
		want := s.policy.Retry.Delay(s.counted, s.delay, judge.Random(m.a.id, m.name(i), s.attempt))
		if asked := rec.Failure.RetryAfter; asked != nil {
			want = max(*asked, 0).Truncate(time.Millisecond)
		}
		if got := rec.NextAt.Sub(m.at); got != want {
			m.fail(Recorded, "step %s is tried again after %s, not %s; it is attempt %d, of which %d count",
				m.name(i), got, want, s.attempt, s.counted)
		}
	}
	s.delay = rec.NextAt.Sub(m.at).Truncate(time.Millisecond)
}

func (m *runModel) endStep(s *stepModel, i int, rec core.StepEnded) {
	if s.closed {
		m.fail(Finished, "step %s ends as %s, and is %s already", m.name(i), rec.Phase, s.phase)
	}
	if replaced := m.a.sdk != nil && s.kind == core.KindChild && m.op == core.OpTerminate; replaced {
		s.live = false // another run goes on with it
	}
	if s.live || s.ready {
		m.fail(EndsOnce, "step %s ends while its attempt is live", m.name(i))
	}
	f := rec.Failure
	switch {
	case s.endedNow || rec.Signal != "":
		m.notByTimer = m.notByTimer || rec.Signal != ""
	case s.kind == core.KindSleep && rec.Phase == core.StepSucceeded && !m.operated:
		m.checkTimer(s.next, "sleep "+m.name(i)+" ends")
	case f != nil && f.Kind == policy.KindTimeout && f.Limit != policy.LimitNone &&
		rec.Reason == policy.ReasonTimeoutNotRetryable && s.group == core.NoStep:
		m.expire(s, i, f.Limit)
	default:
		m.notByTimer = true
	}
	switch {
	case rec.Signal != "":
		m.takeEvent(s, rec)
	case s.kind == core.KindWait && s.spec.Any != nil && rec.Phase == core.StepSucceeded && !m.operated:
		checkFirst(m, i, rec)
	}
	if rec.Reason == policy.ReasonWorkerLost {
		m.checkStopped(s, i)
	}
	s.closed, s.phase, s.backingOff = true, rec.Phase, false
	s.failure, s.failureType = 0, ""
	if f != nil {
		s.failure, s.failureType = f.Kind, f.Type
	}
	if s.kind != core.KindSleep {
		s.next = 0
	}
}

func (m *runModel) reset(s *stepModel, i int, rec core.StepReset) {
	if !m.begins { // a run that was opened again, and that its queue lets begin
		m.checkOperation(core.OpResume, "step "+m.name(i)+" is reset", core.OpRetryRun, core.OpRetryStep, core.OpNow)
	}
	if m.operated && m.op == core.OpNow && (rec.ScheduleToClose != s.toClose || rec.Deadline != s.deadline) {
		m.fail(FixedDeadline, "the early end of a backoff moves the deadlines of step %s", m.name(i))
	}
	s.toClose, s.deadline, s.resetNow = rec.ScheduleToClose, rec.Deadline, rec.Restart
	if rec.NextAt != 0 {
		s.next = rec.NextAt
	}
	if rec.Budget {
		s.counted, s.allowed, s.delay = 0, 0, 0
		s.losses.row, s.losses.counts, s.losses.others, s.losses.since = 0, 0, 0, 0
	}
	if s.ready {
		s.readyAt = m.at
	}
	if !rec.Restart {
		if s.closed {
			m.fail(Finished, "step %s is reset, and is %s", m.name(i), s.phase)
		}
		return
	}
	if !s.closed || s.live {
		m.fail(OneAttempt, "step %s restarts while an attempt is live", m.name(i))
	}
	s.closed = false
	if s.kind == core.KindTask || s.kind == core.KindChild {
		s.backingOff, s.next = true, m.at
	}
}

// expire checks that a limit which expires was due. A deadline that passed before the first attempt is noticed only
// when that attempt would start, so it is in no order with other timers.
func (m *runModel) expire(s *stepModel, i int, kind policy.LimitKind) {
	if kind == policy.LimitDeadline && s.deadline == 0 {
		m.notByTimer = true
	}
	m.checkTimer(m.limitOf(s, kind), "the "+kind.String()+" limit of step "+m.name(i)+" expires")
}

// limitOf returns when a limit ends the step or its attempt; zero: never.
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
		return after(longerLimit(s.startPolicy.Heartbeat, s.policy.Heartbeat), max(s.started, s.beat))
	case policy.LimitInactivity:
		return after(longerLimit(s.startPolicy.Inactivity, s.policy.Inactivity), max(s.started, s.beat, s.output))
	default:
		return s.next
	}
}

// longerLimit returns the limit on silence after an operator has replaced the policy. The worker still reports as often
// as the former policy needs, so the longer limit counts.
func longerLimit(former, now *policy.Limit) *policy.Limit {
	switch {
	case former == nil || now == nil:
		return nil
	case former.After > now.After:
		return former
	default:
		return now
	}
}

// runLimit returns the run's own deadline; zero if it does not count now.
func (m *runModel) runLimit() core.Time {
	if m.closing || m.stopping || (m.paused != 0 && m.stopClock) {
		return 0
	}
	return m.execution.Earlier(m.limit)
}

// stepDeadline returns the deadline of all attempts of a step together.
func (m *runModel) stepDeadline(s *stepModel) core.Time {
	return m.outerLimit(s).Earlier(s.toClose.Earlier(s.deadline))
}

// attemptDeadline returns the deadline of the step's current attempt.
func (m *runModel) attemptDeadline(s *stepModel) core.Time {
	d := m.stepDeadline(s)
	if s.ready {
		return d.Earlier(m.limitOf(s, policy.LimitScheduleToStart))
	}
	return d.Earlier(m.limitOf(s, policy.LimitStartToClose))
}

// nextDue returns when the run's next limit, sleep or backoff ends; zero: never. Warnings are not counted.
func (m *runModel) nextDue() core.Time {
	switch {
	case m.closed:
		return 0
	case m.inQueue():
		return m.runLimit()
	case m.waitsForStart():
		return m.startAt.Earlier(m.runLimit())
	}
	at := m.runLimit()
	if !m.closing {
		at = at.Earlier(m.until)
	}
	for i := range m.steps {
		s := &m.steps[i]
		if s.closed || (m.paused != 0 && !s.live) {
			continue
		}
		at = at.Earlier(s.toClose.Earlier(s.deadline))
		switch {
		case s.ready:
			at = at.Earlier(m.limitOf(s, policy.LimitScheduleToStart))
		case s.live:
			kinds := []policy.LimitKind{policy.LimitStartToClose, policy.LimitHeartbeat, policy.LimitInactivity}
			for _, k := range kinds {
				at = at.Earlier(m.limitOf(s, k))
			}
		case m.paused == 0 && !s.stopping && (s.backingOff || s.kind == core.KindSleep || s.kind == core.KindWait):
			at = at.Earlier(s.next)
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
