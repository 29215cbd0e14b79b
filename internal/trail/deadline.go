package trail

import (
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// binding returns the deadline of an open step that comes first, nil if it has no deadline.
func (t *speaker) binding(s *core.Step) *api.Deadline {
	limit, at := t.Run.Binding(s)
	if at == 0 {
		return nil
	}
	if limit == policy.LimitExecution || limit == policy.LimitRun {
		return t.runBinding()
	}
	from := s.ScheduledAt
	if s.Started != 0 {
		from = s.Started
	}
	d := &api.Deadline{Limit: limit.String(), At: api.Time(at), From: api.Time(from)}
	if l := s.Effective().Get(limit); l != nil {
		d.After, d.Origin = api.Duration(l.After), l.Origin
		if l.At == 0 && l.After > 0 {
			d.From = api.Time(at.Add(-l.After)) // the deadline may have been moved, so its clock counts from here
		}
	}
	return d
}

// runBinding returns the run's own next deadline. There is none while hooks run or the clock is stopped.
func (t *speaker) runBinding() *api.Deadline {
	limit, at := t.Run.Limit()
	if at == 0 {
		return nil
	}
	l := t.Run.Deadline
	if limit == policy.LimitExecution {
		l = t.Run.Execution
	}
	d := runDeadline(limit, l, t.Run.CreatedAt)
	d.At = api.Time(at)
	return &d
}

// deadlines returns the run's stored deadlines.
func (t *speaker) deadlines() []api.Deadline {
	var all []api.Deadline
	if l := t.Run.Execution; l.At != 0 {
		all = append(all, runDeadline(policy.LimitExecution, l, t.Run.CreatedAt))
	}
	if l := t.Run.Deadline; l.At != 0 {
		all = append(all, runDeadline(policy.LimitRun, l, t.Run.CreatedAt))
	}
	if t.Run.ClockStands() { // it goes on from there at an unknown instant
		for i := range all {
			all[i].Left = api.Duration(all[i].At.Sub(max(api.Time(t.Run.PausedAt), all[i].From)))
			all[i].At, all[i].From = 0, 0
		}
	}
	return all
}

func runDeadline(limit policy.LimitKind, l core.RunLimit, created core.Time) api.Deadline {
	return deadline(limit, l.At, l.After, l.Origin, created)
}

// deadline makes a stored deadline. Its clock started at from. But if the limit has a length, its start is computed
// back from the deadline, because the deadline may have been moved.
func deadline(limit policy.LimitKind, at core.Time, after time.Duration, origin string, from core.Time) api.Deadline {
	if after > 0 {
		from = at.Add(-after)
	}
	return api.Deadline{
		Limit: limit.String(), At: api.Time(at), After: api.Duration(after), Origin: origin, From: api.Time(from),
	}
}

// stepDeadlines returns a step's stored deadlines.
func stepDeadlines(s *core.Step) []api.Deadline {
	var all []api.Deadline
	add := func(limit policy.LimitKind, at core.Time) {
		if at == 0 {
			return
		}
		var after time.Duration
		origin := ""
		if l := s.Effective().Get(limit); l != nil {
			after, origin = l.After, l.Origin
		}
		all = append(all, deadline(limit, at, after, origin, s.ScheduledAt))
	}
	add(policy.LimitScheduleToClose, s.ScheduleToClose)
	add(policy.LimitDeadline, s.Deadline)
	return all
}
