package trail

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
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

// Binding is the deadline that comes first for an open step: what its bar counts down to.
func (t *Trail) Binding(s *core.Step) Deadline {
	limit, at := t.Run.Binding(s)
	if at == 0 {
		return Deadline{}
	}
	if limit == policy.LimitExecution || limit == policy.LimitRun {
		return t.OfRun()
	}
	d := Deadline{Limit: limit, At: at, From: s.ScheduledAt}
	if s.Started != 0 {
		d.From = s.Started
	}
	if l := s.Effective().Get(limit); l != nil {
		d.After, d.Origin = l.After, l.Origin
		if l.At == 0 && l.After > 0 {
			d.From = at.Add(-l.After) // it may have been moved since its clock started
		}
	}
	return d
}

// OfRun is the run's own next deadline. Hooks are not bounded by it, and a stopped clock has none.
func (t *Trail) OfRun() Deadline {
	limit, at := t.Run.Limit()
	if at == 0 {
		return Deadline{}
	}
	l := t.Run.Deadline
	if limit == policy.LimitExecution {
		l = t.Run.Execution
	}
	d := Deadline{Limit: limit, At: at, After: l.After, Origin: l.Origin, From: t.Run.CreatedAt}
	if l.After > 0 {
		d.From = at.Add(-l.After)
	}
	return d
}
