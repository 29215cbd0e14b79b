package core

import (
	"time"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// maxForecast is how many entries a forecast makes at most.
const maxForecast = 10_000

// Forecast says what a run would come to if nobody did anything, and each attempt of its open steps did as act says.
// Retry delays and deadlines are those that the run will have: jitter is not random. What the workflow would begin then
// is left out, since only its steps know what they return.
//
// in is an operation that comes first; nil: none does. The run is changed. told gets the entries that the run would
// have, one after the other. most is how many attempts of a step are forecast. If the operation is refused, the error
// is the one that it would get.
func Forecast(r *Run, in Input, act Act, most int, now Time, told func(Entry)) error {
	f := &forecast{act: act, last: make([]int, len(r.Steps))}
	for i := range r.Steps {
		f.last[i] = r.Steps[i].Attempt + most
	}
	def, decider := *r.def, r.def.NewDecider
	def.NewDecider = func(run *Run) Decider { return onlooker{decider(run)} }
	p := &player{run: r, def: &def, now: max(now, r.last), act: f.of, told: told}
	p.until = p.now.Add(countable)
	p.run.Attach(&def)
	p.run.forgetDecider()
	if in != nil {
		if err := p.put(in, p.now); err != nil {
			return err
		}
	}
	def.Elsewhere = false // the forecast shows what its program would do
	for n := 0; n < maxForecast && f.interesting(r); n++ {
		if more, err := p.next(); err != nil || !more {
			return err
		}
	}
	return nil
}

// forecast has what the attempts do, and after which attempt of each step it ends.
type forecast struct {
	act  Act
	last []int
}

func (f *forecast) of(s *Step) *Act {
	if int(s.ID) >= len(f.last) || s.Attempt > f.last[s.ID] {
		return nil
	}
	return &f.act
}

// interesting reports whether a step of the run is open whose attempts are forecast.
func (f *forecast) interesting(r *Run) bool {
	if r.Phase.Closed() || r.PausedAt != 0 {
		return false
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Spec.Kind != KindTask || s.Phase.Closed() || f.of(s) == nil {
			continue
		}
		if s.Phase != StepBackingOff || s.Attempt < f.last[s.ID] {
			return true
		}
	}
	return false
}

// onlooker decides nothing.
type onlooker struct{ Decider }

func (onlooker) Decide(*Run, []StepID, Time) []Command { return nil }

// Ahead is what comes of a step if its attempts fail.
type Ahead struct {
	Attempts []Planned
	At       Time // when the step gives up; zero: that is not known
	Attempt  int  // the last one before that
	Reason   policy.Reason
	Limit    policy.LimitKind // the limit that expires then, or leaves no time for another attempt
}

// Planned is an attempt that has not begun.
type Planned struct {
	Attempt  int
	From, To Time
}

// maxAhead is how many attempts a look ahead counts. It does not say when a step gives up that may be tried more often.
const maxAhead = 200

// LookAhead says what comes of a task step if nobody acts on it, each attempt runs for took, gives its signs of life,
// and fails. Delays and deadlines are those that will be. most is how many attempts are listed. When an attempt begins
// that waits for a worker is not known; of one that is held it is the instant until which it is held.
func LookAhead(r *Run, s *Step, took time.Duration, most int, now Time) Ahead {
	if s.Spec.Kind != KindTask || s.Phase.Closed() || r.PausedAt != 0 {
		return Ahead{}
	}
	next := *s
	l := lookout{Run: r, step: &next, took: took, most: most, now: max(now, r.last)}
	if s.Phase == StepScheduled {
		next.ReadyAt = s.HeldNow().Until
		if next.ReadyAt == 0 {
			return Ahead{}
		}
	}
	for next.Attempt < s.Attempt+maxAhead && l.out.At == 0 {
		l.advance()
	}
	return l.out
}

// lookout plays one step on.
type lookout struct {
	*Run
	step *Step
	took time.Duration
	most int
	now  Time
	out  Ahead
}

// advance does what the step does next.
func (l *lookout) advance() {
	switch s := l.step; s.Phase {
	case StepBackingOff:
		at := max(s.NextAt, l.now)
		if !l.expires(at) {
			s.ready(at)
			l.now = at
		}
	case StepScheduled:
		at := max(s.ReadyAt, l.now)
		if l.expires(at) {
			return
		}
		m := machine{r: l.Run, now: at}
		s.start(at, AttemptStarted{Deadline: m.firstDeadline(s)})
		l.now = at
		if len(l.out.Attempts) < l.most {
			l.out.Attempts = append(l.out.Attempts, Planned{s.Attempt, at, at.Add(l.took)})
		}
	default:
		l.fail()
	}
}

// expires ends the step if a limit of it or of its run expires until an instant.
func (l *lookout) expires(until Time) bool {
	d := l.ends()
	if d.at == 0 || d.at > until {
		return false
	}
	l.end(d.at, policy.ReasonTimeoutNotRetryable, d.limit)
	return true
}

// ends returns the limit that ends the attempt, or the step, if the attempt does not end before. Signs of life come in
// time.
func (l *lookout) ends() due {
	d := l.spanning(l.step)
	p := l.step.Effective()
	switch {
	case l.step.Phase == StepScheduled:
		return d.withLimit(policy.LimitScheduleToStart, p.ScheduleToStart, l.step.ReadyAt)
	case l.step.executes():
		return d.withLimit(policy.LimitStartToClose, p.StartToClose, l.step.Started)
	default:
		return d
	}
}

func (l *lookout) end(at Time, reason policy.Reason, limit policy.LimitKind) {
	l.out.At, l.out.Attempt, l.out.Reason, l.out.Limit = at, l.step.Attempt, reason, limit
}

// fail ends the attempt that runs.
func (l *lookout) fail() {
	s := l.step
	at, f := max(s.Started.Add(l.took), l.now), &policy.Failure{Kind: policy.KindError}
	if d := l.ends(); d.at != 0 && d.at <= at {
		at, f = d.at, &policy.Failure{Kind: policy.KindTimeout, Limit: d.limit}
	}
	if n := len(l.out.Attempts); n > 0 && l.out.Attempts[n-1].Attempt == s.Attempt {
		l.out.Attempts[n-1].To = at
	}
	p := s.Effective()
	match := judge.Match{Matched: true}
	v := judge.Judge(p, historyOf(l.Run, s, f, 0), f, match, at, l.random(s))
	if !v.Retry {
		limit := v.Bound
		if limit == policy.LimitNone {
			limit = f.Limit
		}
		l.end(at, v.Reason, limit)
		return
	}
	s.endAttempt(at, AttemptEnded{Failure: f, Retry: true, NextAt: v.At})
	l.now = at
}
