package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// random has the random numbers of a universe. They follow from its seed.
type random struct{ *rand.Rand }

func newRandom(seed, stream uint64) random { return random{rand.New(rand.NewPCG(seed, stream))} }

// chance returns true with probability p.
func (r random) chance(p float64) bool { return p > 0 && r.Float64() < p }

// span returns a duration between low and high. Every order of magnitude is equally likely.
func (r random) span(low, high time.Duration) time.Duration {
	if low >= high {
		return low
	}
	l, h := math.Log(float64(low)), math.Log(float64(high))
	return time.Duration(math.Exp(l + r.Float64()*(h-l))).Truncate(time.Microsecond)
}

// between returns a duration between low and high. Every duration is equally likely.
func (r random) between(low, high time.Duration) time.Duration {
	return (low + time.Duration(r.Float64()*float64(high-low))).Truncate(time.Microsecond)
}

func pick[T any](r random, of []T) T { return of[r.IntN(len(of))] }
