package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// sleepers measures the cost of sleeping runs: memory, disk, and processor time while nothing is due.
func sleepers(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 1_000_000, 100_000)
	st, err := s.open(ctx, nil)
	if err != nil {
		return Row{}, err
	}
	before := settledMemory()
	w, err := st.park(ctx, s, n)
	if err != nil {
		return Row{}, st.fail(err)
	}
	row := w.row("B RSS/run", 1)
	row.RSS = max(settledMemory()-before, 0)
	stop := meter()
	rest(ctx, pick(s, 10*time.Second, 2*time.Second))
	idle := stop()
	if err := s.measureServer(ctx, &row); err != nil {
		return Row{}, st.fail(err)
	}
	if err := st.close(); err != nil {
		return Row{}, err
	}
	if err := s.measureFile(&row); err != nil {
		return Row{}, err
	}
	disk := float64(row.DB) / float64(n)
	row.Value = float64(row.RSS) / float64(n)
	row.detail = fmt.Sprintf("%d runs, %.0f B on disk a run, %.0f started/s, idle cpu %.2g %%%s",
		n, disk, w.rate(), idle.cpu.Seconds()/idle.took.Seconds()*100, w.usage)
	row.reached = row.Value <= 400 && disk <= 500
	if s.server != nil {
		row.reached = disk <= 600
	}
	return row, nil
}

// park starts runs that sleep for an hour, and waits until the engine has written them to disk and out of memory.
func (st *stack) park(ctx context.Context, s *session, n int) (window, error) {
	def := definition(sleepFlow)
	w := window{all: make([]time.Duration, n)}
	stop := meter()
	err := each(ctx, n, inFlight, func(ctx context.Context, i int) error {
		at := time.Now()
		_, err := st.start(ctx, def, nil)
		w.all[i] = time.Since(at)
		return err
	})
	w.usage = stop()
	if err != nil {
		return w, err
	}
	s.logf("%d runs sleep, %.0f started/s", n, w.rate())
	return w, until(ctx, func() bool { return st.engine.Stats().Behind == 0 })
}

// settledMemory returns the memory of the process after it has given back unneeded memory.
func settledMemory() int64 {
	debug.FreeOSMemory() // runs the collector first
	debug.FreeOSMemory() // and again, for what finalizers and pools held
	return resident()
}
