package client

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// StartRequest starts a run.
type StartRequest struct {
	Workflow       string
	ID             string // workflow id; empty: the run's own
	IdempotencyKey string // unique among the starts of this workflow
	Input          []byte // encoded
	UseExisting    bool
	At             time.Time // zero: now
	Deadline       time.Time // the deadline of the chain; zero: the workflow's own
	Actor, Reason  string
	Labels         map[string]string // the values that the run can be searched by
	Queue          string            // the queue of the run; empty: the workflow's; see pawl.InQueue
	QueueKey       string
	Priority       int32
	Headers        map[string]string // the headers that go along with the run; see pawl.Headers
}

// RestartRequest starts a run like an earlier one: with its input, labels, headers and queue. Without Steps, From and
// Failed all of its steps run again.
type RestartRequest struct {
	// Steps run again, and those that did not succeed; the results of all others are kept. A name includes its
	// repetitions: "charge" for "charge#2".
	Steps []string
	// The field From keeps the results of the steps that began before the step with that key; in a flow, of those that
	// do not need that step.
	From string
	// Failed keeps the results of all steps but those that failed, and those that depend on them: in a flow, what needs
	// them; in a Go workflow, what its function did after it had seen a failure. Steps and From are empty then.
	Failed        bool
	Actor, Reason string
}

// Started answers a start.
type Started struct {
	ID       string
	Existing bool // the run was there before
}

// SendRequest is an event or an update for a run.
type SendRequest struct {
	Name    string
	ID      string // chosen by the sender; a second event with the same name and id is ignored; empty: none is
	Payload []byte // encoded
	Actor   string // the actor of an event
}

// Answer is what a run answers to an update.
type Answer struct {
	Run     string // its id
	Output  []byte // encoded
	Failure *policy.Failure
	Refused bool // the body did not accept the update; nothing is recorded of it
}
