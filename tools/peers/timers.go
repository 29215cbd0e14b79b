package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// The work timers: runs that sleep until an instant each, a millisecond apart, and note when their code goes on.
const (
	mostTimers  = 10_000
	timersEvery = time.Millisecond
	timersLead  = 30 * time.Second // the time to start them
	timersApart = 20 * time.Second // the time over which their starts are spread
	timersAfter = time.Minute      // the time that they have after the last instant
	// timersMemory is what a program with the workers of a server may use until it collects garbage.
	timersMemory = 4 << 30
)

// notes are how late the code of runs went on after their sleep. Each turn is a separate process, and so are they.
var notes = struct {
	sync.Mutex
	late []float64 // the lateness in milliseconds
	seen map[int64]bool
}{seen: map[int64]bool{}}

// awake notes how late a run's sleep has ended; the code of the run calls it. It may be called again for the same
// instant: a run that was unloaded may come by again.
func awake(due int64) {
	now := time.Now()
	notes.Lock()
	defer notes.Unlock()
	if notes.seen[due] {
		return
	}
	notes.seen[due] = true
	notes.late = append(notes.late, now.Sub(time.UnixMicro(due)).Seconds()*1e3)
}

// noted returns how many runs have gone on.
func noted() int {
	notes.Lock()
	defer notes.Unlock()
	return len(notes.late)
}

// measureTimers starts as many of these runs as can be started in time, and awaits them.
func measureTimers(ctx context.Context, s stage) (turn, error) {
	return s.use(ctx, func(e engine) (turn, error) { return s.timers(ctx, e) })
}

func (s stage) timers(ctx context.Context, e engine) (turn, error) {
	began := time.Now()
	first := began.Add(timersLead).Truncate(time.Microsecond)
	n, err := startMany(ctx, e, s.work.clients, mostTimers, first.Add(-timersLead/5), func(i int) job {
		// Where a sleep is told as a duration, what its start waits behind others would count as lateness of the timer.
		rest(ctx, time.Until(began.Add(timersApart/mostTimers*time.Duration(i))))
		return job{Run: int64(i) + 1, Due: first.Add(time.Duration(i) * timersEvery).UnixMicro()}
	})
	if err != nil {
		return turn{}, err
	}
	if time.Now().After(first) {
		return turn{}, fmt.Errorf("starting %d runs took longer than %s", n, timersLead)
	}
	if e.process() != 0 { // the lateness is that of a server, which shares its cores with this program
		runtime.GC()
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(timersMemory)
	}
	rest(ctx, time.Until(first))
	from := s.used(e)
	over := first.Add(time.Duration(n)*timersEvery + timersAfter)
	for noted() < n && time.Now().Before(over) && ctx.Err() == nil {
		rest(ctx, 10*time.Millisecond)
	}
	to := s.used(e)
	if err := context.Cause(ctx); err != nil {
		return turn{}, err
	}
	if came := noted(); came < n {
		return turn{}, fmt.Errorf("%d of %d runs have not gone on %s after the last instant", n-came, n, timersAfter)
	}
	t := turn{Runs: float64(n), P50: quantile(notes.late, 0.5), P99: quantile(notes.late, 0.99)}
	t.since(from, to, t.Runs)
	return t, nil
}
