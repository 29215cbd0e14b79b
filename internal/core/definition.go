package core

import (
	"time"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// Definition is a workflow as the machine sees it: what its steps are, who decides what a run does next, and what
// holds for its runs as a whole. It is made once, shared by all runs and never changed. To vary one, copy the struct
// and replace a field:
//
//	mine := *def
//	mine.NewDecider = func(r *core.Run) core.Decider { return logged{def.NewDecider(r)} }
//
// Only NewDecider is required. Its funcs are called by several runs at once.
type Definition struct {
	// Specs are the steps that records name by their ordinal, in that order. The machine compares them by address.
	Specs []*StepSpec

	// ExpectedSteps says how many steps a run is likely to have, where Specs does not tell; nil: not known. Room is
	// made for as many.
	ExpectedSteps func() int

	// NewDecider returns what decides for one run, from the state that the run has now: a fresh run, or one that was
	// folded from its records. A decider may keep derived state of its own; the run's state is the truth.
	NewDecider func(r *Run) Decider

	// HasBody: the decisions are made outside the machine, by the body of a Go function. The decider answers with
	// Consult, and the run counts as active until the body has said that it waits.
	HasBody bool

	// HandlesCancel: the body is asked before a run ends that was cancelled or has expired, so that it can undo what it
	// did. It needs HasBody.
	HandlesCancel bool

	// Turns: its runs have no steps. They keep a value and take turns; see [Turn].
	Turns bool

	// Answers: its bodies are asked in writing; see [Answer]. It needs HasBody.
	Answers bool

	// Elsewhere: another program decides the runs and executes their steps. Here they are looked at and operated on;
	// see [Run.Elsewhere].
	Elsewhere bool

	// Rules returns what holds for a run with that input as a whole. It is asked when a run starts and when it ends;
	// nil: no rules. It is a func because the options of a Go workflow may become known after its runs were read.
	Rules func(input []byte) RunRules

	// Begins returns when a run begins whose start was asked for now; nil, now, or an instant that has passed: at
	// once. It is not asked for a later run of a chain: that begins when the retry policy, or Follows, says.
	Begins func(now Time) Time

	// Follows returns when the next run of the chain begins, after one that is for a firing, began at an instant and
	// ends now, however it ends, unless it is cancelled. Nil or zero: none follows.
	Follows func(firing, began, now Time) Time

	// Timetable says for people when runs begin, such as "0 12 * * * UTC"; empty: when they are started.
	Timetable string

	// Newest: a run that is started with the workflow id of an open run takes its place. The open run is cancelled, and
	// the new one begins when it has ended.
	Newest bool

	// MayDecide returns why somebody may not end a wait of the run: by an event, or with a step by an operation on it.
	// Empty: he may. Nil: everybody may.
	MayDecide func(r *Run, event string, step *Step, actor string) string

	// Recalls: a run that begins a chain wants to know whether the last run of its workflow failed.
	Recalls bool

	// CheckInput returns the input with its defaults filled in, or an error that says what is wrong with it. The engine
	// asks it for child runs, which nobody else starts; nil: any input will do.
	CheckInput func(input []byte) ([]byte, error)

	// Tolerates reports whether what needs the step goes on although the step did not succeed. A retry of the run
	// leaves such a step as it is. Nil: no step is tolerated.
	Tolerates func(s *Step) bool

	// Dependents returns the steps that were decided after one of some steps had ended, because they need it, directly
	// or not. A retry of those steps drops them: what came of the failure is decided anew. Nil: a body decides, and
	// gives the causes of its decisions.
	Dependents func(r *Run, retried []StepID) []StepID

	// CountItems returns how many items a group step has, those included that have not begun; false: the step is not a
	// group, or its list cannot be evaluated. It is called only for display. Nil: not known.
	CountItems func(r *Run, s *Step) (int, bool)

	// ItemNames returns the names of a group step's items, in their order; there may be more items than names. It is
	// called only for display. Nil: not known.
	ItemNames func(r *Run, s *Step) []string

	// GraceOf returns how long the work of a step has to end after it was told to, before it is killed; zero: not
	// known. It is called only for display. Nil: not known.
	GraceOf func(s *Step) time.Duration

	// ChildID returns the workflow id of the run of a child step, which lives where that says; nil: it has none.
	ChildID func(s *Step) string

	// Successor returns what follows a run as new that gives this input to the next one of its chain; nil: a run of the
	// same definition, at once, with the run limit that this one has.
	Successor func(input []byte) Successor

	// InputAfter returns the input of the run that follows one of the chain, by its retry policy or timetable, which
	// ends so; nil: that of the run.
	InputAfter func(r *Run, phase RunPhase, output []byte, f *policy.Failure) []byte

	// ShowInput and ShowValue return, for people, an input of its runs and any other payload of them as JSON; nil: they
	// are JSON.
	ShowInput, ShowValue func(payload []byte) []byte

	// Queues and Services are the limits that the definition gives them, by name. Those of the engine come first.
	Queues, Services map[string]*policy.QueueLimits

	// RunQueue returns the queue that a run with that input is started into, where its start names none, or nil if
	// there is none. An error says why its key cannot be worked out.
	RunQueue func(input []byte) (RunQueue, error)

	// Random draws the number that spreads a backoff; nil: a hash of the attempt. The policy simulator sets it.
	Random func() float64
}

// Successor is what follows a run as new.
type Successor struct {
	Definition Store         // its definition, which is stored with the end of the run
	Delay      time.Duration // how long after that it begins
}

// RunRules are what a definition says about its runs as a whole. A limit that a start names replaces the one here.
type RunRules struct {
	Retry     *policy.Retry // whether another run follows one that failed; nil: none does
	Execution *policy.Limit // the limit of a chain of runs
	Run       *policy.Limit // the limit of one run
	Deadline  *policy.Limit // an instant that the chain does not live past
	// Follows is as Definition.Follows, for runs with that input whose body is asked in writing. The first run begins
	// with the first firing.
	Follows func(firing, began, now Time) Time
	// Compensation is how long a body may take that was asked to stop; zero: a minute.
	Compensation time.Duration
}

// Decider decides for one run. Its methods are pure functions of the run's state and of what the decider derived from
// it.
type Decider interface {
	// Decide returns what the run does now. closed lists the steps that closed since the last call. While the run
	// closes (r.Closing is set) it returns the hooks of that outcome's stage r.Closing.Hook and nothing else.
	Decide(r *Run, closed []StepID, now Time) []Command
	// Match evaluates the condition (When) of a retry policy: of the step's for the failure of its last attempt, or
	// with a nil step of the run retry policy for the failure of the run. output is what the attempt returned although
	// it failed, for the condition alone: it is not kept.
	Match(r *Run, s *Step, when string, f *policy.Failure, output []byte, now Time) judge.Match
	// Task returns the payload a worker needs to execute the step's attempt (KindTask), or the start of the child run
	// (KindChild), as JSON.
	Task(r *Run, s *Step, now Time) ([]byte, *policy.Failure)
}

// Spec returns the step with that ordinal, or nil if there is none.
func (d *Definition) Spec(ordinal int32) *StepSpec {
	if d == nil || ordinal < 0 || int(ordinal) >= len(d.Specs) {
		return nil
	}
	return d.Specs[ordinal]
}

// RunRules returns what holds for a run with that input as a whole.
func (d *Definition) RunRules(input []byte) RunRules {
	if d == nil || d.Rules == nil {
		return RunRules{}
	}
	return d.Rules(input)
}

// ShownInput returns an input of its runs as JSON.
func (d *Definition) ShownInput(payload []byte) []byte {
	if d == nil || d.ShowInput == nil || len(payload) == 0 {
		return payload
	}
	return d.ShowInput(payload)
}

// ShownValue returns another payload of its runs as JSON.
func (d *Definition) ShownValue(payload []byte) []byte {
	if d == nil || d.ShowValue == nil || len(payload) == 0 {
		return payload
	}
	return d.ShowValue(payload)
}

// rules returns what holds for the run as a whole.
func (r *Run) rules() RunRules { return r.def.RunRules(r.Input) }
