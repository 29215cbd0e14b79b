package policy

import (
	"math"
	"time"
)

// maxDelay is the longest delay in milliseconds; it is small enough for a float64 to hold it exactly.
const maxDelay = float64(math.MaxInt64 / int64(time.Millisecond))

// Delay is the time between the end of attempt n (from 1, lost attempts not counted) and the next one:
//
//	min(InitialInterval × BackoffCoefficient^(n-1), MaxInterval)
//
// The jitter is applied after the cap, so the cap always holds. With uniform jitter j the delay lies between (1-j) and
// 1 times that, at the point that u in [0,1) chooses. With decorrelated jitter it is
//
//	min(InitialInterval + u × (3 × previous - InitialInterval), MaxInterval)
//
// where previous is the delay before this one and 0 if there was none. A coefficient below 1 counts as 1. The result
// is never negative, is floored to whole milliseconds, and saturates: no n overflows.
func (r *Retry) Delay(n int, previous time.Duration, u float64) time.Duration {
	if r.InitialInterval <= 0 {
		return 0
	}
	u = min(max(u, 0), 1)
	initial, limit := milliseconds(r.InitialInterval), maxDelay
	if r.MaxInterval > 0 {
		limit = min(limit, milliseconds(r.MaxInterval))
	}
	if r.JitterKind == JitterDecorrelated {
		// After a short wish of the worker's three times the previous delay may be less than the initial one.
		spread := max(3*milliseconds(previous)-initial, 0)
		return floor(min(initial+float64(u*spread), limit))
	}
	grown := initial * math.Pow(max(r.BackoffCoefficient, 1), float64(max(n, 1)-1))
	jitter := min(max(r.Jitter, 0), 1)
	// The conversions keep compilers from fusing multiplication and addition, which would round differently on
	// different machines: a preview must show the very delays that happen.
	return floor(min(grown, limit) * (float64(1-jitter) + float64(jitter*u)))
}

// Longest is the longest delay there would be without cap and jitter: the last one, or with unlimited attempts the one that
// all of them come to.
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

func wholeMilliseconds(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }

// Random draws the number in [0,1) that spreads the delay after an attempt. It depends on nothing but the run, the
// step and the attempt, so a preview, a replay and every node draw the same one.
//
// The function never changes: FNV-1a over the run's bytes, the step's bytes and the attempt's number as eight bytes,
// lowest first; then SplitMix64's finaliser; the upper 53 bits of the result are the fraction.
func Random(run [16]byte, step string, attempt int) float64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	hash := uint64(offset)
	for _, b := range run {
		hash = (hash ^ uint64(b)) * prime
	}
	for i := range len(step) {
		hash = (hash ^ uint64(step[i])) * prime
	}
	for n, i := uint64(attempt), 0; i < 8; i++ {
		hash = (hash ^ (n & 0xff)) * prime
		n >>= 8
	}
	hash ^= hash >> 30
	hash *= 0xbf58476d1ce4e5b9
	hash ^= hash >> 27
	hash *= 0x94d049bb133111eb
	hash ^= hash >> 31
	return float64(hash>>11) / (1 << 53)
}
