package trail

import (
	"time"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/policy"
)

// Deadline is an instant that bounds something, with the clock it belongs to.
type Deadline struct {
	Limit  policy.LimitKind
	From   core.Time // when its clock started; zero: not known
	At     core.Time // zero: there is none
	After  time.Duration
	Origin string // where it was configured
}

// earlier keeps the earlier one; at the same instant the outer limit, which has the smaller kind.
func (d Deadline) earlier(o Deadline) Deadline {
	if o.At == 0 || (d.At != 0 && (d.At < o.At || (d.At == o.At && d.Limit <= o.Limit))) {
		return d
	}
	return o
}

// Binding is the deadline that comes first for an open step: what its bar counts down to.
func (t *Trail) Binding(s *core.Step) Deadline {
	if s.Phase.Closed() {
		return Deadline{}
	}
	executes := s.Phase == core.StepRunning || s.Started != 0
	if t.Run.PausedAt != 0 && !executes {
		return Deadline{}
	}
	d := t.OfRun()
	p := s.Effective()
	d = d.earlier(stored(policy.LimitScheduleToClose, p.ScheduleToClose, s.ScheduleToClose, s.ScheduledAt))
	d = d.earlier(stored(policy.LimitDeadline, p.Deadline, s.Deadline, s.Started))
	switch {
	case s.Phase == core.StepScheduled:
		d = d.earlier(counted(policy.LimitScheduleToStart, p.ScheduleToStart, s.ReadyAt))
	case executes:
		d = d.earlier(counted(policy.LimitStartToClose, p.StartToClose, s.Started))
		d = d.earlier(counted(policy.LimitHeartbeat, p.Heartbeat, max(s.Started, s.BeatAt)))
		d = d.earlier(counted(policy.LimitInactivity, p.Inactivity, max(s.Started, s.BeatAt, s.ByteAt)))
	case s.Phase == core.StepSuspended && s.Spec.Kind == core.KindWait:
		d = d.earlier(stored(policy.LimitWait, p.Wait, s.NextAt, s.ScheduledAt))
	}
	return d
}

// OfRun is the run's own next deadline. Hooks are not bounded by it, and a stopped clock has none.
func (t *Trail) OfRun() Deadline {
	r := t.Run
	if r.Phase.Closed() || r.Closing != nil || (r.PausedAt != 0 && r.StopClock) {
		return Deadline{}
	}
	of := func(kind policy.LimitKind, l core.RunLimit) Deadline {
		d := Deadline{Limit: kind, At: l.At, After: l.After, Origin: l.Origin, From: r.CreatedAt}
		if l.At != 0 && l.After > 0 {
			d.From = l.At.Add(-l.After)
		}
		return d
	}
	return of(policy.LimitExecution, r.Execution).earlier(of(policy.LimitRun, r.Deadline))
}

// stored is a deadline whose instant is kept; it may have been moved since its clock started.
func stored(kind policy.LimitKind, l *policy.Limit, at, from core.Time) Deadline {
	d := Deadline{Limit: kind, At: at, From: from}
	if l != nil {
		d.After, d.Origin = l.After, l.Origin
		if l.At == 0 && l.After > 0 && at != 0 {
			d.From = min(at.Add(-l.After), at)
		}
	}
	return d
}

func counted(kind policy.LimitKind, l *policy.Limit, from core.Time) Deadline {
	if l == nil || from == 0 {
		return Deadline{}
	}
	return Deadline{Limit: kind, From: from, At: from.Add(l.After), After: l.After, Origin: l.Origin}
}
