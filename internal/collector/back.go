package collector

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// lookEvery is how often a program looks whether it holds memory that it has no use for.
	lookEvery = 15 * time.Second
	// spare is how much more than its live memory a program may hold while it rests.
	spare = 64 << 20
	// limitPercent is the part of a control group's memory beyond which garbage is collected all the time.
	limitPercent = 90
)

// Bound makes the program collect garbage before the memory of its control group is used up. A user who has set
// GOMEMLIMIT has decided already.
func Bound() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := memoryLimit(); limit < math.MaxInt64 {
		debug.SetMemoryLimit(int64(limit / 100 * limitPercent))
	}
}

// GiveBack gives memory back to the system that a program has needed for a while only, such as that of streams that
// have ended. Go itself keeps what the last collection has allowed, and collects every two minutes at rest.
func GiveBack() (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		before := use()
		for {
			select {
			case <-t.C:
			case <-done:
				return
			}
			now := use()
			if now.idle(before) {
				debug.FreeOSMemory()
				now = use()
			}
			before = now
		}
	}()
	return func() { close(done) }
}

// used is what a program uses of memory, in bytes.
type used struct {
	allocated uint64 // all that was allocated so far
	held      uint64 // held from the system
	live      uint64 // found in use by the last collection
}

// idle reports whether the program rests since it was looked at before, and holds more than it has a use for.
func (u used) idle(before used) bool {
	return u.allocated-before.allocated < spare && u.held > 2*u.live+spare
}

func use() used {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(s)
	return used{s[0].Value.Uint64(), s[1].Value.Uint64() - s[2].Value.Uint64(), s[3].Value.Uint64()}
}
