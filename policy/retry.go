package policy

import (
	"slices"
	"time"
)

// Unlimited as MaxAttempts sets no bound.
const Unlimited = -1

// JitterKind chooses how jitter changes a delay. Zero: the delay is uniform in [(1-Jitter)·d, d], so that a Jitter of 0
// is none, and 1 is full.
type JitterKind uint8

// JitterDecorrelated makes a delay that depends on the one before: min(cap, U(initial, 3·previous)).
const JitterDecorrelated JitterKind = 1

// Retry is how often a step is tried, which failures are retried, and after what delay.
type Retry struct {
	MaxAttempts        int           // attempts in all; Unlimited: no bound; 0: the step is skipped
	InitialInterval    time.Duration // delay before the 2nd attempt
	BackoffCoefficient float64       // ≥ 1
	MaxInterval        time.Duration // cap on a delay; 0 if there is none
	Jitter             float64       // 0–1
	JitterKind         JitterKind
	On                 []Kind   // kinds that are retried; used if When is empty
	When               string   // expression; replaces On entirely
	NonRetryable       []string // failure types never retried
	MaxLost            int      // lost attempts that count and stop the step; 0: defaultMaxLost; Unlimited: no bound
	Origin             string   // where it was configured
}

// defaultMaxLost is the default number of counted lost attempts that stop a step. Without a bound, a step that kills
// its worker would kill one worker after another.
const defaultMaxLost = 5

// defaultOn lists the kinds that are retried if a policy lists none: failures that may go away by themselves.
var defaultOn = []Kind{KindError, KindTimeout}

// LostBound returns how many lost attempts that count stop the step; Unlimited: any number may be lost.
func (r *Retry) LostBound() int {
	if r == nil || r.MaxLost == 0 {
		return defaultMaxLost
	}
	return r.MaxLost
}

// Retries reports whether On contains the kind. A nil On means error and timeout; an empty On contains nothing.
func (r *Retry) Retries(kind Kind) bool {
	if r.On == nil {
		return slices.Contains(defaultOn, kind)
	}
	return slices.Contains(r.On, kind)
}
