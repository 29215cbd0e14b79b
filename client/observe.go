package client

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// AttemptInfo describes the attempt that a step's function runs in.
type AttemptInfo struct {
	RunID    string
	Workflow string
	Step     string
	// Number counts the attempts that the retry policy counts, from 1. An attempt that was lost with its process does
	// not count, so the one after it has the same number.
	Number int
	// IdempotencyKey is the same for all attempts of the step and for no other step: give it to what the step calls.
	IdempotencyKey string
	Headers        map[string]string // the headers of the run; see pawl.Headers
}

// RunInfo describes the run of a body.
type RunInfo struct {
	ID         string
	Workflow   string
	WorkflowID string // chosen at the start; empty if there is none
	ParentID   string // the parent of a child run
	FirstID    string // the first run of the chain
	Attempt    int    // the attempt of the run retry policy, from 1
	StartedAt  time.Time
	Deadline   time.Time // when it times out; zero: never
	Headers    map[string]string
}

// RunObservation describes the run that an observer is told about.
type RunObservation struct {
	RunInfo
	Phase   Phase     // the phase in which it ended
	EndedAt time.Time // zero if it has not ended
	// Failure is why it did not succeed. With another codec than pawl.JSON, the failure is as it was recorded: kind,
	// type and code are readable, and the program's own text is encoded.
	Failure *policy.Failure
	Err     error // the reason, for BodyStopped
}

// AttemptObservation describes the attempt that an observer is told about.
type AttemptObservation struct {
	AttemptInfo           // counts all attempts, lost ones included
	Child          bool   // the attempt is a child run
	Queue, Service string // empty: none
	Worker         string
	ReadyAt        time.Time       // the instant since which it waited for a worker
	StartedAt      time.Time       // zero if it waits
	EndedAt        time.Time       // zero if it has not ended
	Failure        *policy.Failure // nil if it succeeded, or has not ended; encoded like that of a RunObservation
	Retry          bool            // another attempt follows
	NextAt         time.Time       // when it does
	// Held is the kind of limit that holds the attempt: concurrency, rate, per_key, key_rate, retries or breaker; empty
	// once none does. HeldBy is the queue or service that has the limit.
	Held, HeldBy string
	HeldUntil    time.Time // the earliest instant at which it goes on; zero: not known
}
