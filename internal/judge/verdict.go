package judge

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// Match is the result of a retry policy's When expression for one failure, evaluated by the caller.
type Match struct {
	Matched bool
	Error   string // why the expression could not be evaluated; empty if it could
}

// History is the history of the step before the attempt that ended.
type History struct {
	Counted   int           // attempts that use up MaxAttempts, including the one that ended unless it was lost
	Lost      int           // lost attempts in a row, including the one that ended
	LostAlone int           // those of them that count: the step ran alone, and has made no progress since
	Previous  time.Duration // the last delay, for decorrelated jitter; 0: none yet
	Closed    bool          // the run is closed, or a cancel was requested

	Deadline policy.Time      // the earliest deadline that covers all attempts, of the step or its run; or zero
	Bound    policy.LimitKind // the limit that Deadline comes from
}

// Verdict is the decision about an attempt that ended badly.
type Verdict struct {
	Retry  bool
	Delay  time.Duration    // the delay, for Retry
	At     policy.Time      // the instant of the next attempt, for Retry
	Reason policy.Reason    // the reason, if there is no Retry
	Bound  policy.LimitKind // the limit whose deadline leaves no time, for ReasonNoTimeLeft
	Detail string           // the mistake, for ReasonExpressionError
}
