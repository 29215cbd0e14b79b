package core

import (
	"strings"

	"github.com/pawl-dev/pawl/policy"
)

// Warning is a deadline warning: a limit will expire if nothing happens before. It is the state at the time of the
// warning.
type Warning struct {
	Step     StepID // the step whose limit it is; NoStep: the run's
	Limit    string // the limit in words, such as "run limit of 1h"
	Origin   string // where the limit was configured
	Deadline Time
}

func (r *Run) applyWarned(at Time, rec StepWarned) {
	// A run that rested past the deadline warns in its history only: nobody has to hear of it beside the timeout.
	if deadline := r.warnedOf(rec); r.Warned == nil && deadline > at {
		var s *Step
		if rec.Step != NoStep {
			s = &r.Steps[rec.Step]
		}
		f := r.timeout(s, rec.Limit, nil)
		r.Warned = &Warning{
			Step: rec.Step, Limit: strings.TrimSuffix(f.Message, expired), Origin: f.Origin, Deadline: deadline,
		}
		r.mustWarn = !r.hasBody()
	}
	switch {
	case rec.Step != NoStep:
		r.change(rec.Step, func(s *Step) { s.Warned = at })
	case rec.Limit == policy.LimitExecution:
		r.Execution.Warn = 0
	default:
		r.Deadline.Warn = 0
	}
}

// warnedOf returns the instant that a warning is about.
func (r *Run) warnedOf(rec StepWarned) Time {
	switch {
	case rec.Step == NoStep && rec.Limit == policy.LimitExecution:
		return r.Execution.At
	case rec.Step == NoStep:
		return r.Deadline.At
	case rec.Limit == policy.LimitScheduleToClose:
		return r.Steps[rec.Step].ScheduleToClose
	case rec.Limit == policy.LimitDeadline:
		return r.Steps[rec.Step].Deadline
	case rec.Limit == policy.LimitWait:
		return r.Steps[rec.Step].NextAt
	default:
		return r.perAttempt(rec)
	}
}

// perAttempt returns the instant at which a limit of one attempt ends. It is not stored, as it follows from the
// attempt.
func (r *Run) perAttempt(rec StepWarned) Time {
	s := &r.Steps[rec.Step]
	l := s.limit(rec.Limit)
	switch rec.Limit {
	case policy.LimitScheduleToStart:
		return limitEnd(l, s.ReadyAt)
	case policy.LimitHeartbeat:
		return limitEnd(l, max(s.Started, s.BeatAt))
	case policy.LimitInactivity:
		return limitEnd(l, max(s.Started, s.BeatAt, s.ByteAt))
	default:
		return limitEnd(l, s.Started)
	}
}
