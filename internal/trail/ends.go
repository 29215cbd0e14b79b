package trail

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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

// usual returns how long the attempts of a step took that ended; zero: none has.
func (t *Trail) usual(id core.StepID) time.Duration {
	var sum time.Duration
	n := 0
	for _, a := range t.attempts[id] {
		if a.StartedAt != 0 && a.EndedAt != 0 {
			sum, n = sum+a.EndedAt.Sub(a.StartedAt), n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / time.Duration(n)
}

// ahead returns the future of an open step if its attempts fail, or nil if that is not known.
func (t *Trail) ahead(s *core.Step, now core.Time) *api.Ahead {
	a := core.LookAhead(t.Run, s, t.usual(s.ID), mostPlanned, now)
	if a.At == 0 && len(a.Attempts) == 0 {
		return nil
	}
	out := &api.Ahead{GivesUp: api.Time(a.At)}
	if a.At != 0 {
		out.Attempt, out.Reason, out.Limit = a.Attempt, a.Reason.String(), a.Limit.String()
	}
	for _, p := range a.Attempts {
		out.Attempts = append(out.Attempts, api.Planned{Attempt: p.Attempt, From: api.Time(p.From), To: api.Time(p.To)})
	}
	return out
}

// ends returns what can end an open step, its attempt or its run while it is open, the first one first.
func (t *Trail) ends(s *core.Step, ahead *api.Ahead) []api.End {
	var all []api.End
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
		all = append(all, named(e))
	})
	if !s.Spec.Detached {
		all = append(all, t.runEnds()...)
	}
	return sorted(all)
}

// exhausted returns the end of a step that has no further attempt, because of its policy or because of a limit that
// leaves no time for one.
func (t *Trail) exhausted(s *core.Step, ahead *api.Ahead) (api.End, bool) {
	retry, most := s.Effective().Retry, maxAttempts(s)
	e := api.End{Cause: api.EndAttempts, Ends: endsStep, Attempts: most}
	if retry != nil {
		e.Origin = retry.Origin
	}
	switch {
	case s.Spec.Kind != core.KindTask && s.Spec.Kind != core.KindChild:
		return e, false
	case ahead != nil && ahead.Reason == policy.ReasonNoTimeLeft.String():
		e.Cause, e.Limit, e.At, e.Attempts = api.EndNoTime, ahead.Limit, ahead.GivesUp, ahead.Attempt
	case ahead != nil && ahead.GivesUp != 0 && gone(ahead.Reason):
		e.At = ahead.GivesUp
	case most <= 1:
		return e, false // its failure ends it, whenever that is
	}
	// Nothing says that a first attempt fails, least of all now: only one that others failed before has that end.
	healthy := s.Failure == nil || ahead != nil && len(ahead.Attempts) == 0
	if s.Phase == core.StepRunning && healthy {
		if e.At = 0; most <= 1 || e.Cause != api.EndAttempts {
			return e, false
		}
	}
	return named(e), true
}

// gone reports whether a step with that reason ends because no attempts are left.
func gone(reason string) bool {
	return reason == policy.ReasonAttemptsExhausted.String() || reason == policy.ReasonRetriesOff.String()
}

func limitEnd(limit policy.LimitKind, at core.Time) api.End {
	return api.End{Cause: api.EndLimit, Ends: endsStep, Limit: limit.String(), At: api.Time(at)}
}

// runEnds returns the run's own limits. None of them counts while it closes.
func (t *Trail) runEnds() []api.End {
	if t.Run.Ending() || t.Run.Phase.Closed() {
		return nil
	}
	var all []api.End
	for _, d := range t.deadlines() {
		all = append(all, named(api.End{
			Cause: api.EndLimit, Ends: endsRun, Limit: d.Limit, At: d.At, From: d.From, After: d.After, Left: d.Left,
			Origin: d.Origin,
		}))
	}
	return sorted(all)
}

// allEnds returns everything that can end an open run: its own limits, and each step that fails it when that gives up.
func (t *Trail) allEnds(steps []*api.Step) []api.End {
	all := t.runEnds()
	def := t.Run.Attached()
	for _, s := range steps {
		if s.Phase.Closed() || s.Hook {
			continue
		}
		if def != nil && def.Tolerates != nil && def.Tolerates(&t.Run.Steps[s.ID]) {
			continue
		}
		for _, e := range s.Ends {
			if e.Ends == endsStep || e.Ends == endsAttempt && e.Limit != "" && s.MaxAttempts == 1 {
				e.Step = s.Step
				all = append(all, e)
			}
		}
	}
	all = sorted(all)
	return all[:min(len(all), mostEnds)]
}

// sorted puts the ends in order: those whose instant is known, then those that a sign of life moves, then the others.
func sorted(all []api.End) []api.End {
	rank := func(e api.End) int {
		switch {
		case e.At != 0 && !e.Renewed:
			return 0
		case e.At != 0:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(all, func(a, b api.End) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.At, b.At))
	})
	return all
}

// named adds what an end is in words.
func named(e api.End) api.End {
	switch {
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
	return e
}
