package api

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// Policies shows what policies do, without running anything. It is beside Service because it needs no engine.
// Reader.Forecast shows how a run will go on. Errors of all methods: CodeInvalid.
type Policies interface {
	// Explain returns the attempts that a policy makes if each fails in the same way.
	ExplainPolicy(ctx context.Context, r PolicyRequest) (Explained, error)
	// SimulatePolicy returns what happens to a step whose attempts follow a script.
	SimulatePolicy(ctx context.Context, r PolicyRequest) (Simulated, error)
	// LintPolicy finds settings of a policy that are allowed and can never have an effect.
	LintPolicy(ctx context.Context, r PolicyRequest) ([]judge.Finding, error)
}

// PolicyRequest is a policy with the behaviour of its attempts.
type PolicyRequest struct {
	System   string          `json:"system,omitempty"`  // the form of the text: native (default), temporal, …
	Policy   json.RawMessage `json:"policy,omitempty"`  // {retry: …, timeout: …}, or a text with it in YAML
	RunLimit Duration        `json:"runLimit,omitzero"` // the limit of the step's run
	// Script lists how the attempts behave; the last entry repeats. Default: they hang if a limit ends an attempt, else
	// they fail at once.
	Script []Act `json:"script,omitempty"`
	// Random is the number in [0,1) that every jitter draws. Default: the greatest.
	Random   *float64 `json:"random,omitempty"`
	Attempts int      `json:"attempts,omitempty"` // how many at most; default 20
}

// Act is the behaviour of one attempt.
type Act struct {
	Queue        Duration   `json:"queue,omitzero"` // waits so long for a worker
	Run          Duration   `json:"run,omitzero"`   // works so long
	End          string     `json:"end"`            // ok, error, failed, hang, lost
	Type         string     `json:"type,omitempty"` // the type of the failure
	NonRetryable bool       `json:"nonRetryable,omitempty"`
	RetryAfter   *Duration  `json:"retryAfter,omitempty"`
	Output       []Duration `json:"output,omitempty"`    // when it prints, from its start on
	Heartbeat    []Duration `json:"heartbeat,omitempty"` // when it shows that it is alive
}

// Simulated is the course of a step. Its times are lengths since the step was scheduled.
type Simulated struct {
	Policy   policy.Policy      `json:"policy"`            // the policy in the native form
	Attempts []SimulatedAttempt `json:"attempts"`          // those that begin, then those that never can
	Phase    string             `json:"phase"`             // the phase at the end; backing_off: it goes on like this
	Reason   string             `json:"reason,omitempty"`  // why it is not tried again
	At       Duration           `json:"at"`                // the end
	Marks    []Mark             `json:"marks,omitempty"`   // the deadlines that span attempts
	Assumes  string             `json:"assumes,omitempty"` // the attempts that were assumed, in words
	Beyond   int                `json:"beyond,omitempty"`  // the first attempt more than 292 years later: not listed
}

// SimulatedAttempt is one attempt.
type SimulatedAttempt struct {
	Attempt int       `json:"attempt"`
	At      Duration  `json:"at"` // it is ready for a worker
	Started *Duration `json:"started,omitempty"`
	Ended   *Duration `json:"ended,omitempty"`
	End     string    `json:"end,omitempty"`   // as in the script, or timeout
	Limit   string    `json:"limit,omitempty"` // the limit that ended it
	Never   bool      `json:"never,omitempty"` // it would follow, but a deadline comes first
}

// Mark is a deadline.
type Mark struct {
	Limit string   `json:"limit"`
	At    Duration `json:"at"`
}

// Explained is what a policy does if every attempt fails, with the settings in it that can never have an effect.
type Explained struct {
	Simulated
	Findings []judge.Finding `json:"findings"`
}
