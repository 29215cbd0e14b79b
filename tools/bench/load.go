package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// inFlight is how many clients work at the same time, each on one run after the other.
const inFlight = 256

// window is the work of a closed loop from the end of its warm-up to its own end.
type window struct {
	usage
	all  []time.Duration // start to result, one each
	done int             // the number, with those of the warm-up
	rss  int64
}

// rate returns how many were done in a second.
func (w *window) rate() float64 { return float64(len(w.all)) / w.took.Seconds() }

// cost returns the processor time for one of them, in milliseconds.
func (w *window) cost() float64 { return w.cpu.Seconds() * 1e3 / float64(max(len(w.all), 1)) }

// row describes the window as a row.
func (w *window) row(unit string, steps int) Row {
	s := summarise(w.all)
	return Row{
		Value: w.rate() * float64(steps), Unit: unit, P50: s.p50, P99: s.p99, CPU: w.cpu.Seconds(), RSS: w.rss,
	}
}

// The phases of a closed loop.
const (
	warming = iota
	counting
	over
)

// closedLoop runs clients that do something again and again. Each waits for the end before it starts the next one. A
// client that is alone calls between after each 32; nil if it does not. A length in which nothing ends is exceeded
// until something has, so that every figure is a number on the slowest machine.
func closedLoop(ctx context.Context, clients int, warm, length time.Duration,
	do func(context.Context) error, between func() error,
) (window, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		phase atomic.Int32
		some  atomic.Bool // something has ended and counts
		wait  sync.WaitGroup
		mu    sync.Mutex
		w     window
	)
	for range clients {
		wait.Go(func() {
			all, done := make([]time.Duration, 0, 1024), 0
			for phase.Load() != over {
				from := time.Now()
				if err := do(ctx); err != nil {
					cancel(err)
					return
				}
				done++
				if phase.Load() == counting {
					all = append(all, time.Since(from))
					if len(all) == 1 {
						some.Store(true)
					}
					if between != nil && clients == 1 && done%32 == 0 {
						if err := between(); err != nil {
							cancel(err)
							return
						}
					}
				}
			}
			mu.Lock()
			w.all = append(w.all, all...)
			w.done += done
			mu.Unlock()
		})
	}
	rest(ctx, warm)
	stop := meter()
	phase.Store(counting)
	rest(ctx, length)
	_ = until(ctx, some.Load) // the cause of the context's end is returned below
	phase.Store(over)
	w.usage, w.rss = stop(), resident()
	wait.Wait()
	return w, context.Cause(ctx)
}

// rest waits for a time, or until the context is done.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// each does something once for each of n numbers, a bounded number of them at the same time.
func each(ctx context.Context, n, clients int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next atomic.Int64
		wait sync.WaitGroup
	)
	for range clients {
		wait.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// until asks at intervals until the answer is yes.
func until(ctx context.Context, so func() bool) error {
	for !so() {
		rest(ctx, 2*time.Millisecond)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}
