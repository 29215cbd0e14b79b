package core

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

// due is a limit and the instant at which it fires.
type due struct {
	limit policy.LimitKind
	at    Time
}

// earlier keeps the earlier of two dues; at the same instant the outer limit, which has the smaller kind.
func (d due) earlier(limit policy.LimitKind, at Time) due {
	if at == 0 || (d.at != 0 && (d.at < at || (d.at == at && d.limit < limit))) {
		return d
	}
	return due{limit, at}
}

// withLimit adds a limit's amount to the instant its clock started.
func (d due) withLimit(kind policy.LimitKind, l *policy.Limit, from Time) due {
	return d.earlier(kind, limitEnd(l, from))
}

// limitEnd returns the instant at which a limit of one attempt fires whose clock started at from, zero if there is
// none, or its clock is stopped.
func limitEnd(l *policy.Limit, from Time) Time {
	if l == nil || from == 0 {
		return 0
	}
	return from.Add(l.After)
}

// executes reports whether an attempt runs, of a child step its run.
func (s *Step) executes() bool { return s.Phase == StepRunning || s.Started != 0 }

// clocksPaused reports whether the limits of the step do not fire, because the run is paused and nothing of the step
// runs. When the run resumes the step gets fresh deadlines.
func (s *Step) clocksPaused(r *Run) bool { return r.PausedAt != 0 && !s.executes() }

// limit returns the step's limit of a kind that is in force, or nil if there is none. An operator may replace the
// policy while an attempt runs. Its worker still reports signs of life as seldom as the old policy allows, so of an old
// and a new limit on silence the longer one counts.
func (s *Step) limit(kind policy.LimitKind) *policy.Limit {
	is := s.Effective().Get(kind)
	if kind != policy.LimitHeartbeat && kind != policy.LimitInactivity || is == nil || s.PolicyAtStart == nil {
		return is
	}
	if told := s.PolicyAtStart.Get(kind); told == nil || told.After > is.After {
		return told
	}
	return is
}

// stepLimit returns the next limit of the step itself, without those of its run.
func (r *Run) stepLimit(s *Step) due {
	var d due
	EachLimit(r, s, func(limit policy.LimitKind, at Time) { d = d.earlier(limit, at) })
	return d
}

// EachLimit calls fn with the limits of an open step that count now, and the instants at which they expire, zero for
// limits that the step does not have. It leaves out those of its run.
func EachLimit(r *Run, s *Step, fn func(limit policy.LimitKind, at Time)) {
	if s.Phase.Closed() || s.clocksPaused(r) {
		return
	}
	fn(policy.LimitScheduleToClose, s.ScheduleToClose)
	fn(policy.LimitDeadline, s.Deadline)
	p := s.Effective()
	switch {
	case s.Phase == StepScheduled:
		fn(policy.LimitScheduleToStart, limitEnd(p.ScheduleToStart, s.ReadyAt))
	case s.executes():
		fn(policy.LimitStartToClose, limitEnd(p.StartToClose, s.Started))
		fn(policy.LimitHeartbeat, limitEnd(s.limit(policy.LimitHeartbeat), max(s.Started, s.BeatAt)))
		fn(policy.LimitInactivity, limitEnd(s.limit(policy.LimitInactivity), max(s.Started, s.BeatAt, s.ByteAt)))
	case s.Phase == StepSuspended && s.Spec.Kind == KindWait:
		fn(policy.LimitWait, s.NextAt)
	}
}

// ClockStands reports whether the run is paused and its own deadlines are stopped.
func (r *Run) ClockStands() bool { return r.PausedAt != 0 && r.StopClock }

// runLimit returns the run's own next limit; hooks have their own budget and are not bounded by it.
func (r *Run) runLimit() due {
	if r.Phase.Closed() || r.Closing != nil || r.Stop != nil || r.ClockStands() {
		return due{}
	}
	var d due
	return d.earlier(policy.LimitExecution, r.Execution.At).earlier(policy.LimitRun, r.Deadline.At)
}

// outerLimit returns the run's own next limit if it bounds the step.
func (r *Run) outerLimit(s *Step) due {
	if s.Spec.Detached {
		return due{}
	}
	return r.runLimit()
}

// spanning returns the earliest deadline that bounds all attempts of a step: what a next attempt must begin before.
func (r *Run) spanning(s *Step) due {
	d := r.outerLimit(s)
	return d.earlier(policy.LimitScheduleToClose, s.ScheduleToClose).earlier(policy.LimitDeadline, s.Deadline)
}

// binding returns the effective deadline of the step's attempt, the earliest of all that apply.
func (r *Run) binding(s *Step) due {
	own := r.stepLimit(s)
	if s.Phase.Closed() {
		return own
	}
	return r.outerLimit(s).earlier(own.limit, own.at)
}

// Binding returns the limit that fires first for an open step, the outer one of two at the same instant, and its
// instant, zero if nothing bounds the step.
func (r *Run) Binding(s *Step) (policy.LimitKind, Time) {
	d := r.binding(s)
	return d.limit, d.at
}

// Limit returns the run's own limit that fires first, and its instant; zero: the run has none.
func (r *Run) Limit() (policy.LimitKind, Time) {
	d := r.runLimit()
	return d.limit, d.at
}

// stepWake returns when the step needs attention; zero: never.
func (r *Run) stepWake(s *Step) Time {
	if s.Phase.Closed() {
		return 0
	}
	wake := r.stepLimit(s).at.Earlier(r.nextWarning(s).at)
	if r.PausedAt != 0 || s.Stopping {
		return wake
	}
	if s.Phase == StepBackingOff || (s.Phase == StepSuspended && s.Spec.Kind == KindSleep) {
		wake = wake.Earlier(s.NextAt)
	}
	return wake
}

// nextWarning returns the step's next deadline warning that was not given yet.
func (r *Run) nextWarning(s *Step) due {
	var d due
	for _, w := range r.warnings(s) {
		d = d.earlier(w.limit, w.at)
	}
	return d
}

// warnings returns the step's deadline warnings that were not given yet, whether they are due or not.
func (r *Run) warnings(s *Step) []due {
	if s.clocksPaused(r) {
		return nil
	}
	var out []due
	p := s.Effective()
	consider := func(kind policy.LimitKind, l *policy.Limit, deadline Time) {
		if l == nil || l.Warn == 0 || deadline == 0 {
			return
		}
		if at := deadline.Add(-lead(l)); at > s.Warned {
			out = append(out, due{kind, at})
		}
	}
	consider(policy.LimitScheduleToClose, p.ScheduleToClose, s.ScheduleToClose)
	consider(policy.LimitDeadline, p.Deadline, s.Deadline)
	if s.Spec.Kind == KindWait {
		consider(policy.LimitWait, p.Wait, s.NextAt)
	}
	switch {
	case s.Phase == StepScheduled:
		consider(policy.LimitScheduleToStart, p.ScheduleToStart, limitEnd(p.ScheduleToStart, s.ReadyAt))
	case s.executes():
		consider(policy.LimitStartToClose, p.StartToClose, limitEnd(p.StartToClose, s.Started))
		beat, sign := s.limit(policy.LimitHeartbeat), s.limit(policy.LimitInactivity)
		consider(policy.LimitHeartbeat, beat, limitEnd(beat, max(s.Started, s.BeatAt)))
		consider(policy.LimitInactivity, sign, limitEnd(sign, max(s.Started, s.BeatAt, s.ByteAt)))
	}
	return out
}

// timeout returns the failure of an expired limit. It names the limit, its length and where it was configured.
func (r *Run) timeout(s *Step, kind policy.LimitKind, cause *policy.Failure) *policy.Failure {
	f := &policy.Failure{Kind: policy.KindTimeout, Type: "timeout", Limit: kind, Cause: cause}
	var amount time.Duration
	switch kind {
	case policy.LimitExecution:
		amount, f.Origin = r.Execution.After, r.Execution.Origin
	case policy.LimitRun:
		amount, f.Origin = r.Deadline.After, r.Deadline.Origin
	default:
		if l := s.limit(kind); l != nil {
			amount, f.Origin = l.After, l.Origin
		}
	}
	f.Message = r.describeLimit(s, kind, amount) + expired
	return f
}

// expired is the end of the sentence that describes a limit in a failure.
const expired = " expired"

// describeLimit names a limit with its amount. If an operation has moved its deadline, the amount alone would not tell
// when it expires.
func (r *Run) describeLimit(s *Step, kind policy.LimitKind, amount time.Duration) string {
	text := fmt.Sprintf("%s limit", kind)
	if amount > 0 {
		text += " of " + duration.Format(amount)
	}
	moved, at := r.extendedLimits, Time(0)
	switch {
	case kind == policy.LimitExecution:
		at = r.Execution.At
	case kind == policy.LimitRun:
		at = r.Deadline.At
	case s == nil:
	default:
		moved = s.extendedLimits
		at = map[policy.LimitKind]Time{
			policy.LimitScheduleToClose: s.ScheduleToClose, policy.LimitDeadline: s.Deadline,
			policy.LimitWait: s.NextAt,
		}[kind]
	}
	asConfigured := s != nil && (at == s.ScheduledAt.Add(amount) || at == s.Began.Add(amount)) // a new policy's amount
	if at != 0 && moved.has(kind) && !asConfigured {
		text += fmt.Sprintf(", moved to %s,", at)
	}
	return text
}

// noTimeLeft returns the failure of a step that has no further attempt because it would begin after a deadline. The
// limit has not expired yet.
func (r *Run) noTimeLeft(s *Step, kind policy.LimitKind, cause *policy.Failure) *policy.Failure {
	f := r.timeout(s, kind, cause)
	f.Message = strings.TrimSuffix(f.Message, expired) + " leaves no time for another attempt"
	return f
}

// movedLimits are the kinds of limits whose deadlines an operation has moved.
type movedLimits uint32

func (l movedLimits) has(kind policy.LimitKind) bool { return l&(1<<kind) != 0 }

func (l *movedLimits) add(kind policy.LimitKind) { *l |= 1 << kind }

// expiredPhase returns the phase in which a limit's expiry ends the step.
func expiredPhase(p *policy.Policy, kind policy.LimitKind) StepPhase {
	if l := p.Get(kind); l != nil && l.OnExpire == policy.ExpireCancel {
		return StepCancelled
	}
	return StepTimedOut
}

// limitFrom makes a run's stored deadline from a configured limit and the instant its clock starts.
func limitFrom(l *policy.Limit, from Time) RunLimit {
	if l == nil {
		return RunLimit{}
	}
	out := RunLimit{At: l.At, Origin: l.Origin}
	if l.At == 0 {
		out.At, out.After = from.Add(l.After), l.After
	}
	if l.Warn > 0 && out.After > 0 {
		out.Lead = lead(l)
		out.Warn = out.At.Add(-out.Lead)
	}
	return out
}

// lead returns how long before the limit its warning is due. It divides first: a limit may last for centuries.
func lead(l *policy.Limit) time.Duration { return l.After / 100 * time.Duration(100-l.Warn) }

// warned returns the percentage that a run limit's lead came from.
func warned(l RunLimit) int {
	if l.Lead == 0 {
		return 0
	}
	return 100 - int(l.Lead/(l.After/100))
}

// fresh starts a run limit's clock again.
func (l RunLimit) fresh(now Time) RunLimit {
	if l.After > 0 {
		l.Warn = 0
		return l.moved(now.Add(l.After), now)
	}
	return l
}

// ifAhead returns the limit, or none if its instant has passed.
func (l RunLimit) ifAhead(now Time) RunLimit {
	if l.At <= now {
		return RunLimit{}
	}
	return l
}

// moved returns the limit with another instant; zero removes it. Its warning moves with it. A warning that was given
// is given again where its new instant is still to come.
func (l RunLimit) moved(to, now Time) RunLimit {
	given := l.Warn == 0
	l.At, l.Warn = to, 0
	if to == 0 || l.Lead == 0 {
		return l
	}
	if at := to.Add(-l.Lead); at > now || !given {
		l.Warn = at
	}
	return l
}

// stepDeadline returns the instant a step limit with that configuration ends at when its clock starts at from; from
// 0: its clock has not started, and only an instant binds.
func stepDeadline(l *policy.Limit, from Time) Time {
	if l != nil && l.At != 0 {
		return l.At
	}
	return limitEnd(l, from)
}
