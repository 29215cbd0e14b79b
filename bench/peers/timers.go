package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The work timers: runs that sleep until an instant each, a millisecond apart, and note when their code goes on.
const (
	mostTimers  = 10_000
	timersEvery = time.Millisecond
	timersLead  = 30 * time.Second // in which they are started
	timersAfter = time.Minute      // from the last instant on, until they have to have come
)

// notes are how late the code of runs went on after their sleep. Each turn is a process of its own, and so are they.
var notes = struct {
	sync.Mutex
	late []float64 // in milliseconds
	last time.Time
	seen map[int64]bool
}{seen: map[int64]bool{}}

// awake is called by the code of a run when its sleep has ended. It may be called again for the same instant: a run
// that was unloaded may come by once more.
func awake(due int64) {
	now := time.Now()
	notes.Lock()
	defer notes.Unlock()
	if notes.seen[due] {
		return
	}
	notes.seen[due] = true
	notes.last = now
	notes.late = append(notes.late, now.Sub(time.UnixMicro(due)).Seconds()*1e3)
}

// noted returns how many runs have gone on.
func noted() int {
	notes.Lock()
	defer notes.Unlock()
	return len(notes.late)
}

// measureTimers starts as many of these runs as can be started in time, and awaits them.
func measureTimers(ctx context.Context, e engine, w work, server *server) (turn, error) {
	first := time.Now().Add(timersLead).Truncate(time.Microsecond)
	n, err := startTimers(ctx, e, w.clients, first)
	if err != nil {
		return turn{}, err
	}
	rest(ctx, time.Until(first))
	mine := func() time.Duration { return processor() + processorOf(e.process()) }
	from, own, base, busy := time.Now(), mine(), server.processor(), machineBusy()
	over := first.Add(time.Duration(n)*timersEvery + timersAfter)
	for noted() < n && time.Now().Before(over) && ctx.Err() == nil {
		rest(ctx, 10*time.Millisecond)
	}
	span := time.Since(from)
	own, base, busy = mine()-own, server.processor()-base, machineBusy()-busy
	if err := context.Cause(ctx); err != nil {
		return turn{}, err
	}
	if came := noted(); came < n {
		return turn{}, fmt.Errorf("%d of %d runs have not gone on %s after the last instant", n-came, n, timersAfter)
	}
	runs := float64(n)
	return turn{
		runs / notes.last.Sub(first).Seconds(), quantile(notes.late, 0.5), quantile(notes.late, 0.99),
		own.Seconds() * 1e3 / runs, base.Seconds() * 1e3 / runs,
		max(busy-own-base, 0).Seconds() / span.Seconds(),
	}, nil
}

// startTimers starts the runs and returns how many. A peer that is slow has fewer, as close to each other.
func startTimers(ctx context.Context, e engine, clients int, first time.Time) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	var mu sync.Mutex
	next, enough := 0, first.Add(-timersLead/5)
	for range clients {
		wait.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				if i == mostTimers || time.Now().After(enough) {
					mu.Unlock()
					return
				}
				next++
				mu.Unlock()
				if err := e.sleep(ctx, first.Add(time.Duration(i)*timersEvery)); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if time.Now().After(first) {
		return 0, fmt.Errorf("starting %d runs took longer than %s", next, timersLead)
	}
	return next, nil
}
