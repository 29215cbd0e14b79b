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
		Key     string          // the key for limits for each key; empty: the spec's
		Causes                  // the knowledge of the body when it decided this
		Policy  *policy.Policy  // the spec's with limits that the run gives; nil: the spec's
		Failure *policy.Failure // not nil: the step cannot begin (its input is broken) and fails at once
	}

	// SendTo begins a step that sends something to another run.
	SendTo struct {
		Spec    *StepSpec
		What    Sent   // its From and Step are filled in
		ChildOf string // the key of the step whose child run it is for; empty: What says it
	}

	// Skip records a step that does not run: its condition is false, or what it needs did not succeed.
	Skip struct {
		Spec   *StepSpec
		Item   int32
		Group  StepID
		Reason string
		// Upstream: what it needs did not succeed, so a retry of the run decides it again.
		Upstream bool
	}

	// Finish ends a group, or a wait that another step has ended.
	Finish struct {
		Step    StepID
		Output  []byte
		Failure *policy.Failure
	}

	// Mark records a step that has its result already: something a body decided once and must find again.
	Mark struct {
		Spec   *StepSpec
		Output []byte
		Causes
		Labels Labels // a change of the run's labels
	}

	// AddItem records an item of a loop: a value, which has ended as it begins.
	AddItem struct {
		Spec   *StepSpec
		Item   int32
		Group  StepID
		Output []byte
	}

	// CancelStep ends an open step of the body's own, as the body has decided. A step that has ended stays as it is.
	// With Ask, work that runs is asked to stop, and the step ends when it does.
	CancelStep struct {
		Key string
		Ask bool
	}

	// Publish shows a value to whoever looks at the run, in place of the one before.
	Publish struct {
		Branch, After string // where the body does so; see Point
		Count         int
		Value         []byte
	}

	// AcceptUpdate lets the open wait of that key take an update.
	AcceptUpdate struct {
		Key, Name, ID string
		Payload       []byte
	}

	// AnswerUpdate answers an update, and marks where the body did.
	AnswerUpdate struct {
		Spec     *StepSpec
		Name, ID string
		Output   []byte
		Failure  *policy.Failure
		Causes
	}

	// Consult asks the run's body, which lives outside the machine, what comes next; it answers with Commands. As an
	// effect it tells the shell so, with the steps that closed since the last time; nil: the whole run is news.
	Consult struct{ Closed []StepID }

	// Close settles the run's outcome. Open steps are stopped; hooks run before the run ends. With RunContinued the
	// output is the input of the chain's next run.
	Close struct {
		Phase   RunPhase // RunSucceeded, RunFailed, RunTimedOut, RunCancelled or RunContinued
		Output  []byte
		Failure *policy.Failure
		From    []string // keys of the failed steps that the failure came from; of a body
	}
)

// Causes are what a decision of a body follows from, as far as a retry has to know it.
type Causes struct {
	Saw   []string // keys of the steps that the branch has seen fail since it last decided something
	After []string // keys of the last decisions that follow from such failures, also of branches that it has joined
}

func (Schedule) command()     {}
func (SendTo) command()       {}
func (Skip) command()         {}
func (Finish) command()       {}
func (Mark) command()         {}
func (AddItem) command()      {}
func (CancelStep) command()   {}
func (Publish) command()      {}
func (AcceptUpdate) command() {}
func (AnswerUpdate) command() {}
func (Consult) command()      {}
func (Close) command()        {}
