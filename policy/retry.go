package policy

import "time"

// Unlimited as MaxAttempts sets no bound.
const Unlimited = -1

// JitterKind chooses how jitter changes a delay.
type JitterKind uint8

// The jitter kinds.
const (
	JitterUniform      JitterKind = iota // uniform in [(1-Jitter)·d, d]; Jitter 0 is none, 1 is full
	JitterDecorrelated                   // min(cap, U(initial, 3·previous))
)

// Retry is how often a step is tried, which failures are retried, and after what delay.
type Retry struct {
	MaxAttempts        int           // attempts in all; Unlimited: no bound; 0: the step is skipped
	InitialInterval    time.Duration // delay before the 2nd attempt
	BackoffCoefficient float64       // ≥ 1
	MaxInterval        time.Duration // cap on a delay; 0: none
	Jitter             float64       // 0–1
	JitterKind         JitterKind
	On                 []Kind   // kinds that are retried; used if When is empty
	When               string   // expression; replaces On entirely
	NonRetryable       []string // failure types never retried
	MaxLost            int      // lost attempts that count and stop the step; 0: DefaultMaxLost; Unlimited: no bound
	Origin             string   // where it was configured
}
