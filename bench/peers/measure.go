package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A turn is what one peer did in one window.
type turn struct {
	Rate     float64 // runs a second
	P50, P99 float64 // start to result, in milliseconds
	Own      float64 // processor time a run of the peer's processes, in milliseconds
	Database float64 // of the database server
	Others   float64 // cores that neither of them used, but others did
}

func (t turn) String() string {
	return fmt.Sprintf("%6.0f runs/s, p50 %.3g ms, p99 %.3g ms, cpu %.3g + %.3g ms a run, others %.2g cores",
		t.Rate, t.P50, t.P99, t.Own, t.Database, t.Others)
}

// middle returns the median of each figure.
func middle(turns []turn) turn {
	of := func(get func(turn) float64) float64 {
		all := make([]float64, len(turns))
		for i, t := range turns {
			all[i] = get(t)
		}
		return quantile(all, 0.5)
	}
	return turn{
		of(func(t turn) float64 { return t.Rate }), of(func(t turn) float64 { return t.P50 }),
		of(func(t turn) float64 { return t.P99 }), of(func(t turn) float64 { return t.Own }),
		of(func(t turn) float64 { return t.Database }), of(func(t turn) float64 { return t.Others }),
	}
}

func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// The phases of a turn.
const (
	warming = iota
	counting
	over
)

// measure makes clients do a work again and again. A run counts if it ends in the window.
func measure(ctx context.Context, e engine, w work, server *server, warm, length time.Duration) (turn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		phase atomic.Int32
		wait  sync.WaitGroup
		mu    sync.Mutex
		took  []float64
	)
	for range w.clients {
		wait.Go(func() {
			for phase.Load() != over && ctx.Err() == nil {
				from := time.Now()
				if err := e.once(ctx, w); err != nil {
					cancel(err)
					return
				}
				if phase.Load() == counting {
					mu.Lock()
					took = append(took, time.Since(from).Seconds()*1e3)
					mu.Unlock()
				}
			}
		})
	}
	rest(ctx, warm)
	mine := func() time.Duration { return processor() + processorOf(e.process()) }
	from, own, base, busy := time.Now(), mine(), server.processor(), machineBusy()
	phase.Store(counting)
	rest(ctx, length)
	phase.Store(over)
	span := time.Since(from)
	own, base, busy = mine()-own, server.processor()-base, machineBusy()-busy
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return turn{}, err
	}
	n := float64(len(took))
	if n == 0 {
		return turn{}, fmt.Errorf("no run of %s has ended in %s: give -window more time", w.name, length)
	}
	return turn{
		n / span.Seconds(), quantile(took, 0.5), quantile(took, 0.99),
		own.Seconds() * 1e3 / n, base.Seconds() * 1e3 / n,
		max(busy-own-base, 0).Seconds() / span.Seconds(),
	}, nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processorOf returns the processor time of another process; 0: there is none.
func processorOf(id int) time.Duration {
	if id == 0 {
		return 0
	}
	st, _ := readStat(id)
	return st.own + st.ended
}

// floor is how long the disk takes to make 4 KiB at the end of a file durable.
type floor struct {
	file *os.File
	took []float64 // in milliseconds
}

func openFloor() (*floor, error) {
	f, err := os.CreateTemp(".", "floor-")
	if err != nil {
		return nil, err
	}
	return &floor{file: f}, nil
}

func (f *floor) sample(n int) error {
	block := make([]byte, 4096)
	for range n {
		from := time.Now()
		if _, err := f.file.Write(block); err != nil {
			return err
		}
		if err := syscall.Fdatasync(int(f.file.Fd())); err != nil {
			return err
		}
		f.took = append(f.took, time.Since(from).Seconds()*1e3)
	}
	return nil
}

func (f *floor) close() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name())
}
