package trail

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// The things that an end ends.
const (
	endsRun     = "run"
	endsStep    = "step"
	endsAttempt = "attempt"
)

const (
	mostPlanned = 20 // future attempts that are listed for a step
	mostEnds    = 8  // ends that are listed for a run
)

// ahead returns the future of an open step if its attempts fail, or nil if that is not known.
func ahead(a core.Ahead) *api.Ahead {
	if a.At == 0 && len(a.Attempts) == 0 {
		return nil
	}
	out := &api.Ahead{GivesUp: api.Time(a.At), Soonest: a.Soonest}
	if a.At != 0 {
		out.Attempt, out.Reason, out.Limit = a.Attempt, a.Reason.String(), a.Limit.String()
	}
	for _, p := range a.Attempts {
		out.Attempts = append(out.Attempts, api.Planned{Attempt: p.Attempt, From: api.Time(p.From), To: api.Time(p.To)})
	}
	return out
}

// end is something that can end a step, its attempt or its run.
type end struct {
	api.End
	holds core.Time // its instant is known until then only; zero: always
}

// ends returns what can end an open step, its attempt or its run while it is open, the first one first.
func (t *speaker) ends(s *core.Step, ahead core.Ahead) []end {
	var all []end
	if e, ok := t.exhausted(s, ahead); ok {
		all = append(all, e)
	}
	p := s.Effective()
	core.EachLimit(t.Run, s, func(limit policy.LimitKind, at core.Time) {
		if at == 0 {
			return
		}
		e := limitEnd(limit, at)
		if limit.PerAttempt() {
			e.Ends = endsAttempt
		}
		e.Renewed = limit == policy.LimitHeartbeat || limit == policy.LimitInactivity
		if l := p.Get(limit); l != nil {
			e.After, e.Origin = api.Duration(l.After), l.Origin
		}
		if e.From = api.Time(s.ScheduledAt); e.After > 0 {
			e.From = api.Time(at.Add(-e.After.Std()))
		}
		all = append(all, end{End: named(e)})
	})
	if !s.Spec.Detached {
		all = append(all, t.runEnds()...)
	}
	return sorted(all)
}

// exhausted returns the end of a step that has no further attempt, because of its policy or because of a limit that
// leaves no time for one.
func (t *speaker) exhausted(s *core.Step, ahead core.Ahead) (end, bool) {
	retry, most := s.Effective().Retry, maxAttempts(s)
	e := end{End: api.End{Cause: api.EndAttempts, Ends: endsStep, Attempts: most + s.Attempt - s.Counted}}
	if retry != nil {
		e.Origin = retry.Origin
	}
	known := ahead.At != 0
	switch {
	case s.Spec.Kind != core.KindTask && s.Spec.Kind != core.KindChild:
		return e, false
	case known && ahead.Reason == policy.ReasonNoTimeLeft:
		e.Cause, e.Limit, e.At, e.Attempts = api.EndNoTime, ahead.Limit.String(), api.Time(ahead.At), ahead.Attempt
	case known && usesUp(ahead.Reason):
		e.At, e.Attempts = api.Time(ahead.At), ahead.Attempt
	case most <= 1:
		return e, false // its failure ends it, whenever that is
	}
	e.Soonest, e.holds = ahead.Soonest && e.At != 0, ahead.Holds
	// Nothing says that a first attempt fails, least of all now: only one that others failed before has that end.
	healthy := s.Failure == nil
	if s.Phase == core.StepRunning && healthy {
		if e.At, e.Soonest = 0, false; most <= 1 || e.Cause != api.EndAttempts {
			return e, false
		}
	}
	e.End = named(e.End)
	return e, true
}

func limitEnd(limit policy.LimitKind, at core.Time) api.End {
	return api.End{Cause: api.EndLimit, Ends: endsStep, Limit: limit.String(), At: api.Time(at)}
}

// runEnds returns the run's own limits. None of them counts while it closes; a compensation has its own.
func (t *speaker) runEnds() []end {
	r := t.Run
	if r.Compensating() {
		e := api.End{Cause: api.EndLimit, Ends: endsRun, Limit: limitCompensation, At: api.Time(r.Stop.Until)}
		return []end{{End: named(e)}}
	}
	if r.Closing != nil || r.Stop != nil || r.Phase.Closed() {
		return nil
	}
	var all []end
	for _, d := range t.deadlines() {
		all = append(all, end{End: named(api.End{
			Cause: api.EndLimit, Ends: endsRun, Limit: d.Limit, At: d.At, From: d.From, After: d.After, Left: d.Left,
			Origin: d.Origin,
		})})
	}
	return sorted(all)
}

// Limits that are not limits of a policy.
const (
	limitCompensation = "compensation"
	limitGrace        = "grace"
)

// mostLooked is how many open steps are looked at for what can end a run.
const mostLooked = 64

// allEnds returns everything that can end an open run: its own limits, each step that fails it when that gives up, and
// the grace of work that was told to stop.
func (t *speaker) allEnds() []end {
	all := t.runEnds()
	for _, s := range t.stopping() {
		if at, grace := t.killAt(s); at != 0 {
			all = append(all, end{End: named(api.End{
				Cause: api.EndLimit, Ends: endsAttempt, Step: s.Key(), Limit: limitGrace, At: api.Time(at),
				From: api.Time(toldAt(s)), After: api.Duration(grace),
			})})
		}
	}
	def, looked := t.Run.Attached(), 0
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		if looked == mostLooked {
			break
		}
		if !isOpen(s) {
			continue
		}
		looked++
		if def != nil && def.Tolerates != nil && !s.Spec.Hook && def.Tolerates(s) {
			continue
		}
		for _, e := range t.ends(s, core.LookAhead(t.Run, s, 1)) {
			if e.Ends == endsStep || e.Ends == endsAttempt && e.Limit != "" && maxAttempts(s) == 1 {
				e.Step = s.Key()
				all = append(all, e)
			}
		}
	}
	all = sorted(all)
	return all[:min(len(all), mostEnds)]
}

// FirstEnd returns the first end of an open run whose instant is certain: something is recorded then, unless something
// else happens before. ok is false if there is none.
func FirstEnd(r *core.Run) (first api.End, ok bool) {
	if r.Phase.Closed() {
		return first, false
	}
	t := &speaker{Run: r, itemName: func(core.StepID) string { return "" }}
	for _, e := range t.allEnds() {
		if e.At != 0 && !e.Renewed && !e.Soonest && e.holds == 0 && e.Limit != limitGrace {
			return e.End, true
		}
	}
	return first, false
}

// sorted puts the ends in order: those whose instant is certain, then those that may come later or that a sign of life
// moves, then the others.
func sorted(all []end) []end {
	rank := func(e end) int {
		switch {
		case e.At != 0 && !e.Renewed && !e.Soonest:
			return 0
		case e.At != 0:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(all, func(a, b end) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.At, b.At))
	})
	return all
}

// endsAt returns the ends as they are at an instant. What takes longer than was foreseen has no instant any more.
func endsAt(all []end, now core.Time) []api.End {
	out := make([]end, len(all))
	for i, e := range all {
		if e.holds != 0 && now > e.holds && e.At != 0 {
			e.At, e.Soonest = 0, false
			if e.Cause == api.EndNoTime {
				e.Attempts = 0
			}
			e.End = named(e.End)
		}
		out[i] = e
	}
	var ends []api.End
	for _, e := range sorted(out) {
		ends = append(ends, e.End)
	}
	return ends
}

// named adds what an end is in words.
func named(e api.End) api.End {
	switch {
	case e.Cause == api.EndNoTime && e.Attempts == 0:
		e.Text = fmt.Sprintf("no time for another attempt before the limit %s", e.Limit)
	case e.Cause == api.EndNoTime:
		e.Text = fmt.Sprintf("no time for attempt %d before the limit %s", e.Attempts+1, e.Limit)
	case e.Cause == api.EndAttempts:
		e.Text = fmt.Sprintf("last attempt (%d)", e.Attempts)
	case e.After > 0:
		e.Text = e.Limit + " " + duration.Format(e.After.Std())
	default:
		e.Text = e.Limit
	}
	if e.Renewed {
		e.Text += " without a sign of life"
	}
	if e.Soonest {
		e.Text += " at the soonest"
	}
	return e
}
