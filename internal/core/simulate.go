package core

import (
	"time"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// Act is the behaviour of one attempt of a simulated step.
type Act struct {
	Queue        time.Duration // wait for a worker
	Run          time.Duration // how long it runs
	End          string        // ok, error, failed, hang, lost
	Message      string        // the message of its failure; empty: a default one
	Type         string
	NonRetryable bool
	RetryAfter   *time.Duration
	Output       []time.Duration // offsets from the attempt's start
	Heartbeat    []time.Duration
}

// Scenario is one step under a policy, with the behaviour of its attempts; the last act repeats.
type Scenario struct {
	Policy      policy.Policy
	Script      []Act
	Random      *float64 // the number that every jitter draw yields; nil: the draws of a real run
	RunDeadline time.Duration
	MaxAttempts int // stop after that many attempts; 0: 1000
	// Match evaluates the policy's When; nil: a policy with When is broken.
	Match func(when string, f *policy.Failure, attempt int) judge.Match
}

// Simulated is the result of a scenario. Instants are offsets from the step's first scheduling.
type Simulated struct {
	Attempts []SimulatedAttempt
	Phase    StepPhase
	Reason   policy.Reason
	At       time.Duration
	Beyond   int // the number of the first attempt that would begin beyond what can be counted; 0 if there is none
}

// SimulatedAttempt is one attempt. Started and Ended are nil if it never started or never ended.
type SimulatedAttempt struct {
	At      time.Duration
	Started *time.Duration
	Ended   *time.Duration
	End     string // as in the script, or timeout
	Limit   policy.LimitKind
}

// simulation drives the run machine itself through a scenario in virtual time.
type simulation struct {
	player
	sc    Scenario
	spec  StepSpec
	epoch Time
	out   Simulated
}

// Simulate runs one step under a policy in virtual time. It drives the machine that real runs use.
func Simulate(sc Scenario) (Simulated, error) {
	if sc.MaxAttempts <= 0 {
		sc.MaxAttempts = 1000
	}
	if len(sc.Script) == 0 {
		sc.Script = []Act{{End: "error"}}
	}
	s := &simulation{sc: sc, epoch: 1_000_000}
	s.spec = StepSpec{Name: "step", Kind: KindTask, Type: "scripted", Policy: sc.Policy}
	s.player = player{run: NewRun(RunID{15: 1}), def: s.definition(), act: s.act, told: s.note}
	s.until = s.epoch.Add(countable)
	start := Start{Workflow: "simulation"}
	if sc.RunDeadline > 0 {
		start.Run = &policy.Limit{After: sc.RunDeadline}
	}
	if err := s.put(start, s.epoch); err != nil {
		return Simulated{}, err
	}
	for !s.over() {
		if more, err := s.next(); err != nil || !more {
			return s.result(), err
		}
	}
	return s.result(), nil
}

// definition returns a workflow of one step.
func (s *simulation) definition() *Definition {
	def := &Definition{Specs: []*StepSpec{&s.spec}, NewDecider: func(*Run) Decider { return s }}
	if s.sc.Random != nil {
		def.Random = func() float64 { return *s.sc.Random }
	}
	return def
}

// Decide schedules the step and closes the run with it.
func (s *simulation) Decide(r *Run, _ []StepID, _ Time) []Command {
	switch {
	case r.Closing != nil:
		return nil
	case len(r.Steps) == 0:
		return []Command{Schedule{Spec: &s.spec, Item: -1, Group: NoStep}}
	case r.Steps[0].Phase.Closed():
		return []Command{Close{Phase: RunSucceeded}}
	default:
		return nil
	}
}

// Match evaluates the policy's When.
func (s *simulation) Match(_ *Run, st *Step, when string, f *policy.Failure, _ []byte, _ Time) judge.Match {
	if s.sc.Match == nil {
		return judge.Match{Error: "no evaluator"}
	}
	return s.sc.Match(when, f, st.Counted)
}

// Task returns no payload: the scenario has the acts.
func (s *simulation) Task(*Run, *Step, Time) ([]byte, *policy.Failure) { return nil, nil }

func (s *simulation) step() *Step { return &s.run.Steps[0] }

func (s *simulation) act(st *Step) *Act {
	return &s.sc.Script[min(st.Attempt, len(s.sc.Script))-1]
}

func (s *simulation) over() bool {
	st := s.step()
	return st.Phase.Closed() || s.beyond() || (st.Phase == StepBackingOff && st.Attempt >= s.sc.MaxAttempts)
}

// beyond reports whether the attempt after the last one to be simulated is ready. A retry without a delay is ready in
// the instant in which the attempt before it ended.
func (s *simulation) beyond() bool { return s.step().Attempt > s.sc.MaxAttempts }

// note keeps the attempts from the records.
func (s *simulation) note(e Entry) {
	for _, rec := range e.Records {
		s.noteRecord(rec, e.At.Sub(s.epoch))
	}
}

func (s *simulation) noteRecord(rec Record, at time.Duration) {
	last := len(s.out.Attempts) - 1
	switch rec := rec.(type) {
	case StepBegan, AttemptReady:
		s.out.Attempts = append(s.out.Attempts, SimulatedAttempt{At: at})
	case AttemptStarted:
		s.out.Attempts[last].Started = &at
	case AttemptEnded:
		a := &s.out.Attempts[last]
		a.Ended, a.End = &at, "ok"
		if f := rec.Failure; f != nil {
			a.End, a.Limit = f.Kind.String(), f.Limit
		}
	default: // nothing of an attempt
	}
	s.out.At = at
}

func (s *simulation) result() Simulated {
	st := s.step()
	s.out.Phase, s.out.Reason = st.Phase, st.Reason
	if s.uncountable {
		s.out.Beyond = len(s.out.Attempts) + 1
	}
	switch {
	case s.beyond() && st.Phase == StepScheduled:
		// Whatever the delay is, the result is a step that backs off before the attempt that is not simulated.
		s.out.Attempts = s.out.Attempts[:s.sc.MaxAttempts]
		s.out.Phase, s.out.At = StepBackingOff, st.ReadyAt.Sub(s.epoch)
	case st.Phase == StepRunning:
		s.out.At = st.Started.Sub(s.epoch)
	case st.Phase == StepScheduled:
		s.out.At = st.ReadyAt.Sub(s.epoch)
	case st.EndedAt != 0:
		s.out.At = st.EndedAt.Sub(s.epoch)
	}
	return s.out
}
