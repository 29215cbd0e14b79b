package policy

import (
	"math"
	"time"
)

// maxDelay is the longest delay in milliseconds; it is small enough for a float64 to hold it exactly.
const maxDelay = float64(math.MaxInt64 / int64(time.Millisecond))

// Delay returns the time from the end of attempt n to the start of the next one. Attempts count from 1; lost ones are
// not counted. The delay is
//
//	min(InitialInterval × BackoffCoefficient^(n-1), MaxInterval)
//
// Jitter is applied after the cap, so no delay is longer than the cap. Uniform jitter j multiplies the delay by a
// factor from 1-j to 1; u in [0,1) chooses the factor. With decorrelated jitter the delay is
//
//	min(InitialInterval + u × (3 × previous - InitialInterval), MaxInterval)
//
// where previous is the delay before this one, or 0 if there was none. A coefficient below 1 counts as 1. The result is
// never negative, is rounded down to whole milliseconds, and does not overflow: a huge n gives the longest delay.
func (r *Retry) Delay(n int, previous time.Duration, u float64) time.Duration {
	if r.InitialInterval <= 0 {
		return 0
	}
	u = min(max(u, 0), 1)
	initial := milliseconds(r.InitialInterval)
	limit := maxDelay
	if r.MaxInterval > 0 {
		limit = min(limit, milliseconds(r.MaxInterval))
	}

	if r.JitterKind == JitterDecorrelated {
		// The previous delay may be the short one that a worker asked for. Three times that may be less than initial.
		spread := max(3*milliseconds(previous)-initial, 0)
		return floor(min(initial+float64(u*spread), limit))
	}

	grown := initial * math.Pow(max(r.BackoffCoefficient, 1), float64(max(n, 1)-1))
	jitter := min(max(r.Jitter, 0), 1)
	// The conversions keep a compiler from fusing the multiplication and the addition. Machines that do so round
	// differently, and then a preview would not show the delays that really happen.
	return floor(min(grown, limit) * (float64(1-jitter) + float64(jitter*u)))
}

// Longest returns the longest delay that the policy would reach without cap and jitter. That is the delay before the
// last attempt; with unlimited attempts it is the value that the delays grow to.
func (r *Retry) Longest() time.Duration {
	last := math.MaxInt32
	if r.MaxAttempts > 0 {
		last = r.MaxAttempts - 1
	}
	uncapped := Retry{InitialInterval: r.InitialInterval, BackoffCoefficient: r.BackoffCoefficient}
	return uncapped.Delay(last, 0, 0)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func floor(ms float64) time.Duration { return time.Duration(ms) * time.Millisecond }
