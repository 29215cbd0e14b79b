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

// Asked is an operation on a run or a step of it. The run keeps them because sentences name who acted, and why.
type Asked struct {
	At     Time
	Op     Op
	Step   StepID // NoStep: the run
	Actor  string
	Reason string
}

// Past is how the attempts of a step went since it began, or since an operator put it back to work. No decision
// follows from it.
type Past struct {
	Before int           // the number of the last attempt before an operator put it back to work
	Ended  int           // attempts that had a start and an end
	Took   time.Duration // how long these took together
	Failed int           // the last ones in a row that ended with an error or a timeout, as breakers count
	Alike  int           // the last ones that failed as the last one did
	Note   string        // the fault of the retry condition after the last one
}

// note takes in the end of an attempt of s, whose state is still that before its end.
func (p *Past) note(s *Step, at Time, rec AttemptEnded) {
	p.Note = rec.Note
	if s.Started != 0 {
		p.Ended, p.Took = p.Ended+1, p.Took+at.Sub(s.Started)
	}
	switch {
	case rec.Failure == nil:
		p.Alike = 0
	case p.Alike > 0 && alike(s.Failure, rec.Failure):
		p.Alike++
	default:
		p.Alike = 1
	}
	switch f := rec.Failure; {
	case f == nil || f.Kind == policy.KindFailed:
		p.Failed = 0
	case f.Kind == policy.KindError || f.Kind == policy.KindTimeout:
		p.Failed++
	default:
	}
}

// alike reports whether two failures read the same.
func alike(a, b *policy.Failure) bool {
	return a != nil && b != nil && a.Kind == b.Kind && a.Type == b.Type && a.Limit == b.Limit && a.Message == b.Message
}

// usual returns how long an attempt took; zero: none has ended.
func (p *Past) usual() time.Duration {
	if p.Ended == 0 {
		return 0
	}
	return p.Took / time.Duration(p.Ended)
}

// Ahead is what comes of a step if its attempts fail.
type Ahead struct {
	Attempts []Planned
	At       Time // when the step gives up; zero: that is not known
	Attempt  int  // the last one before that
	Reason   policy.Reason
	Limit    policy.LimitKind // the limit that expires then, or leaves no time for another attempt
	// Soonest: other runs share a limit of its queue or service, so an attempt may begin later than that.
	Soonest bool
	// Holds is the instant at which the forecast has failed if nothing has happened: the attempt that runs takes longer
	// than the earlier ones did, or the hold goes on. Zero: it does not depend on that.
	Holds Time
}

// Planned is an attempt that has not begun.
type Planned struct {
	Attempt  int
	From, To Time
}

// maxAhead is how many attempts a look ahead counts. It does not say when a step gives up that may be tried more often.
const maxAhead = 200

// LookAhead says what comes of a task step if nobody acts on it, each attempt takes as long as the earlier ones did,
// gives its signs of life, and fails. Delays and deadlines are those that will be. It depends on the state alone, not
// on the present instant. most is how many attempts are listed. When an attempt begins that waits for a worker is not
// known; of one that is held it is the instant until which it is held.
func LookAhead(r *Run, s *Step, most int) Ahead {
	if s.Spec.Kind != KindTask || s.Phase.Closed() || r.PausedAt != 0 || s.Phase == StepBackingOff && s.Stopping {
		return Ahead{}
	}
	next := *s
	l := lookout{Run: r, step: &next, took: s.Past.usual(), most: most, now: r.last, shares: sharesOf(r, s)}
	l.out.Soonest = len(l.shares) > 0 || s.Spec.Share != nil // those of an engine are not known here
	switch s.Phase {
	case StepScheduled:
		held := s.HeldNow()
		if held.Until == 0 {
			return Ahead{}
		}
		l.next, l.out.Holds, l.out.Soonest = held.Until, held.Until, true
	case StepRunning:
		l.out.Holds = next.Started.Add(l.took)
	default:
		l.out.Holds = s.NextAt
	}
	for next.Attempt < s.Attempt+maxAhead && l.out.At == 0 {
		l.advance()
	}
	switch l.out.Reason {
	case policy.ReasonTimeoutNotRetryable: // a limit ends it, however late its attempts begin
		l.out.Soonest = false
	default:
	}
	return l.out
}

// lookout plays one step on.
type lookout struct {
	*Run
	step   *Step
	took   time.Duration
	most   int
	now    Time
	next   Time // the earliest start of the attempt that waits, by the limits that it shares
	shares []*share
	out    Ahead
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
		at := max(s.ReadyAt, l.now, l.next)
		for _, share := range l.shares {
			at = share.after(at, s.Attempt > 1)
		}
		if l.expires(at) {
			return
		}
		m := machine{r: l.Run, now: at}
		s.start(at, AttemptStarted{Deadline: m.firstDeadline(s)})
		l.now, l.next = at, 0
		for _, share := range l.shares {
			share.started(at, s.Attempt > 1)
		}
		if len(l.out.Attempts) < l.most {
			l.out.Attempts = append(l.out.Attempts, Planned{s.Attempt, at, at.Add(l.took)})
		}
	default:
		l.fail()
	}
}

// expires ends the attempt that waits, or the step, if a limit of it or of its run expires until an instant.
func (l *lookout) expires(until Time) bool {
	d := l.ends()
	if d.at == 0 || d.at > until {
		return false
	}
	if d.limit.PerAttempt() {
		l.judge(d.at, &policy.Failure{Kind: policy.KindTimeout, Limit: d.limit})
		return true
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
	for _, share := range l.shares {
		share.failed(at)
	}
	l.judge(at, f)
}

// judge decides what follows when the attempt ends.
func (l *lookout) judge(at Time, f *policy.Failure) {
	s := l.step
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

// share is a limit that a step shares with others, as it would be if they did nothing.
type share struct {
	limits  *policy.QueueLimits
	starts  []Time // those that are foreseen
	retries []Time // those of them that follow a failure
	fails   int    // failures in a row
	probes  int    // failed probes; -1: the breaker is closed
	open    Time   // the breaker lets no attempt through before
}

// sharesOf returns the limits that bound the attempts of a step, besides its policy.
func sharesOf(r *Run, s *Step) (all []*share) {
	if r.def == nil {
		return nil
	}
	held := s.HeldNow()
	add := func(l *policy.QueueLimits, service bool, name string) {
		if name == "" || l.Zero() {
			return
		}
		next := &share{limits: l, fails: s.Past.Failed, probes: -1}
		if held.Reason == HeldBreaker && held.Service == service && held.Name == name {
			next.probes = held.Probes
		}
		all = append(all, next)
	}
	add(r.def.Queues[s.Spec.Queue], false, s.Spec.Queue)
	if share := s.Spec.Share; share != nil {
		add(r.def.Queues[share.Queue], false, share.Queue)
		add(r.def.Services[share.Service], true, share.Service)
	}
	return all
}

// after returns when an attempt may start that could otherwise start at an instant.
func (l *share) after(at Time, retry bool) Time {
	within := func(rate policy.Rate, starts []Time) {
		if n := len(starts); rate.N > 0 && n >= rate.N {
			at = max(at, starts[n-rate.N].Add(rate.Per))
		}
	}
	within(l.limits.Rate, l.starts)
	within(l.limits.KeyRate, l.starts)
	if retry {
		within(l.limits.Retries, l.retries)
	}
	return max(at, l.open)
}

func (l *share) started(at Time, retry bool) {
	l.starts = append(l.starts, at)
	if retry {
		l.retries = append(l.retries, at)
	}
}

// failed takes in the failure of an attempt: it opens the breaker, or was its probe.
func (l *share) failed(at Time) {
	rule := l.limits.Breaker
	l.fails++
	switch {
	case rule.Failures == 0:
	case l.probes >= 0:
		l.probes++
		l.open = at.Add(rule.PauseAfter(l.probes))
	case l.fails >= rule.Failures:
		l.probes, l.open = 0, at.Add(rule.PauseAfter(0))
	}
}
