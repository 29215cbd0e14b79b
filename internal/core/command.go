package core

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// Command is a decision of a definition: what the run does next.
//
//sumtype:decl
type Command interface{ command() }

type (
	// Schedule begins a step.
	Schedule struct {
		Spec    *StepSpec
		Item    int32           // index among the group's items, or -1
		Group   StepID          // the group the step is an item of, or NoStep
		Until   Time            // KindSleep: its end, or
		For     time.Duration   // KindSleep: its length, from its scheduling
		Failure *policy.Failure // not nil: the step cannot begin (its input is broken) and fails at once
	}

	// Skip records a step that does not run: its condition is false, or what it needs did not succeed.
	Skip struct {
		Spec   *StepSpec
		Item   int32
		Group  StepID
		Reason string
		// Upstream: what it needs did not succeed, so a retry of the run decides it anew.
		Upstream bool
	}

	// Finish ends a group.
	Finish struct {
		Step    StepID
		Output  []byte
		Failure *policy.Failure
	}

	// Mark records a step that has its result already: something a body decided once and must find again.
	Mark struct {
		Spec   *StepSpec
		Output []byte
	}

	// Consult asks the run's body, which lives outside the machine, what comes next; it answers with Commands. As an
	// effect it says so to the shell, with the steps that closed since the last time; nil: all of the run is news.
	Consult struct{ Closed []StepID }

	// Close settles the run's outcome. Open steps are stopped; hooks run before the run ends. With RunContinued the
	// output is the input of the chain's next run.
	Close struct {
		Phase   RunPhase // RunSucceeded, RunFailed, RunTimedOut, RunCancelled or RunContinued
		Output  []byte
		Failure *policy.Failure
	}
)

func (Schedule) command() {}
func (Skip) command()     {}
func (Finish) command()   {}
func (Mark) command()     {}
func (Consult) command()  {}
func (Close) command()    {}

// Definition is a workflow as the machine sees it. It is immutable and shared between runs.
type Definition interface {
	// Spec returns the step with that ordinal.
	Spec(def int32) *StepSpec
	// Decider returns what decides for one run, from the state the run has now (a fresh run, or one folded from its
	// records). It may keep derived state of its own; the run's state is the truth.
	Decider(r *Run) Decider
	// Retry returns the run retry policy; nil: none.
	Retry() *policy.Retry
}

// Bounded is a Definition that bounds its runs by itself. What a start says of its own replaces it, limit by limit.
type Bounded interface {
	// Bounds returns the limits of a chain of runs and of one run, and an instant the chain does not live past.
	Bounds() (execution, run, deadline *policy.Limit)
}

// Timed is a Definition whose runs begin at instants of its choosing, such as those of a cron expression. A later run of the
// chain that its retry policy asks for begins when that says.
type Timed interface {
	// Begins returns when a run begins whose start was asked for now; now, or an instant that has passed: at once.
	Begins(now Time) Time
	// Follows returns when the next run of the chain begins, after one that began at an instant and ends now, however it
	// ends, unless it is cancelled; zero: none follows.
	Follows(began, now Time) Time
}

// Checked is a Definition that checks what its runs start with; child runs are started by the engine alone, so it asks.
type Checked interface {
	// CheckInput returns the input with what it leaves out, or an error that says what is wrong with it.
	CheckInput(input []byte) ([]byte, error)
}

// Bodied is a Definition whose decisions are made by a body outside the machine, a Go function. Its Decider answers with
// Consult; the run counts as active until the body has said that it waits.
type Bodied interface{ Bodied() }

// RunMatcher is a Decider that evaluates the condition of a run retry policy.
type RunMatcher interface {
	MatchRun(r *Run, when string, f *policy.Failure, now Time) policy.Match
}

// Decider decides for one run. Its methods are pure functions of the run's state and its own derived state.
type Decider interface {
	// Decide returns what the run does now. closed lists the steps that closed since the last call. While the run closes
	// (r.Closing is set) it returns the hooks of that outcome's stage r.Closing.Hook and nothing else.
	Decide(r *Run, closed []StepID, now Time) []Command
	// Match evaluates a retry policy's When for a failure of the step's last attempt.
	Match(r *Run, s *Step, when string, f *policy.Failure, now Time) policy.Match
	// Task returns the payload a worker needs to execute the step's attempt (KindTask), or the start of the child run
	// (KindChild), as JSON.
	Task(r *Run, s *Step, now Time) ([]byte, *policy.Failure)
}
