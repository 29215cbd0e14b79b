package policy

import "time"

// Reason is why a step stopped being tried.
type Reason uint8

// The stop reasons, in the order in which Judge checks them.
const (
	ReasonNone Reason = iota
	ReasonCancelled
	ReasonTimeoutNotRetryable
	ReasonNonRetryable
	ReasonNotMatched
	ReasonExpressionError
	ReasonAttemptsExhausted
	ReasonRetriesOff
	ReasonNoTimeLeft
	ReasonWorkerLost
	ReasonSkipped
	ReasonOperator // an operator completed, failed or skipped the step
)

// Match is the result of a retry policy's When expression for one failure, evaluated by the caller.
type Match struct {
	Matched bool
	Error   string // why the expression could not be evaluated; empty: it could
}

// History is what came before the attempt that ended.
type History struct {
	Counted   int           // attempts that use up MaxAttempts, the one that ended included unless it was lost
	Lost      int           // lost attempts in a row, the one that ended included
	LostAlone int           // those of them that count: the step ran alone, and made no progress since
	Previous  time.Duration // the last delay, for decorrelated jitter; 0: none yet
	Closed    bool          // the run is closed, or a cancel was requested

	Deadline Time      // the earliest deadline of the step and its run that covers all attempts; zero: none
	Bound    LimitKind // the limit that Deadline comes from
}

// Verdict is what follows an attempt that ended badly.
type Verdict struct {
	Retry  bool
	Delay  time.Duration // the delay, for Retry
	At     Time          // the instant of the next attempt, for Retry
	Reason Reason        // the reason, if there is no Retry
	Bound  LimitKind     // the limit whose deadline leaves no time, for ReasonNoTimeLeft
	Detail string        // the mistake, for ReasonExpressionError
}
