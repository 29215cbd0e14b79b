package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// random is a universe's only source of chance.
type random struct{ *rand.Rand }

func newRandom(seed, stream uint64) random { return random{rand.New(rand.NewPCG(seed, stream))} }

// chance is true with probability p.
func (r random) chance(p float64) bool { return p > 0 && r.Float64() < p }

// span draws a duration between low and high, every order of magnitude as likely as the other.
func (r random) span(low, high time.Duration) time.Duration {
	if low >= high {
		return low
	}
	l, h := math.Log(float64(low)), math.Log(float64(high))
	return time.Duration(math.Exp(l + r.Float64()*(h-l))).Truncate(time.Microsecond)
}

// between draws a duration between low and high evenly.
func (r random) between(low, high time.Duration) time.Duration {
	return (low + time.Duration(r.Float64()*float64(high-low))).Truncate(time.Microsecond)
}

func pick[T any](r random, of []T) T { return of[r.IntN(len(of))] }
