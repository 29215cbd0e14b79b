package policy

import (
	"math"
	"time"
)

// Time is an instant: microseconds since the Unix epoch. Zero means "none".
type Time int64

// FarFuture is later than every instant that a policy can give. Sums that would be later are FarFuture.
const FarFuture Time = math.MaxInt64

// At converts a wall clock reading. Sub-microsecond parts are dropped.
func At(t time.Time) Time { return Time(t.UnixMicro()) }

// Std returns the instant as a UTC time.Time; the zero Time gives the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// Add returns t+d, or FarFuture if the sum overflows.
func (t Time) Add(d time.Duration) Time {
	us := d.Microseconds()
	if us > 0 && int64(t) > math.MaxInt64-us {
		return FarFuture
	}
	return t + Time(us)
}

// Sub returns t-u, or the longest duration if the difference does not fit.
func (t Time) Sub(u Time) time.Duration {
	const longest = math.MaxInt64 / int64(time.Microsecond)
	us := int64(t - u)
	switch {
	case t > u && (us < 0 || us > longest): // a difference below zero has overflowed
		return math.MaxInt64
	case t < u && (us > 0 || us < -longest):
		return math.MinInt64
	}
	return time.Duration(us) * time.Microsecond
}

// Earlier returns the earlier of two instants, where zero means "none".
func (t Time) Earlier(u Time) Time {
	if t == 0 || (u != 0 && u < t) {
		return u
	}
	return t
}

func (t Time) String() string {
	if t == 0 {
		return "-"
	}
	return t.Std().Format("2006-01-02T15:04:05.000000Z07:00")
}
