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

// A turn is the work of one peer in one window. Figures that a work does not have are 0.
type turn struct {
	Runs     float64 // how many there were
	Rate     float64 // runs a second
	P50, P99 float64 // start to result, or instant to code, in milliseconds
	Own      float64 // processor time a run of the peer's processes, in milliseconds
	Beside   float64 // the part of it that a process beside this one used
	Database float64 // the figure of the database server
	Others   float64 // cores that neither of them used, but others did
	Memory   float64 // bytes a run
	Disk     float64 // bytes a run
	Idle     float64 // cores that the peer and its database use while all runs sleep
	Seconds  float64 // the time from the start after a kill until all is done
	Again    float64 // steps that ran more than once
	Lost     float64 // runs that were accepted and are not done
}

// middle returns the median of each figure.
func middle(turns []turn) (t turn) {
	figures := func(t *turn) []*float64 {
		return []*float64{
			&t.Runs, &t.Rate, &t.P50, &t.P99, &t.Own, &t.Beside, &t.Database, &t.Others, &t.Memory, &t.Disk, &t.Idle,
			&t.Seconds, &t.Again, &t.Lost,
		}
	}
	for i, to := range figures(&t) {
		all := make([]float64, len(turns))
		for k := range turns {
			all[k] = *figures(&turns[k])[i]
		}
		*to = quantile(all, 0.5)
	}
	return t
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

// longer is how much longer a window may be if fewer runs than clients have ended in it: all begin at once, and may end
// at once after it.
const longer = time.Minute

// measureRate makes clients do a work again and again. A run counts if it ends in the window.
func measureRate(ctx context.Context, s stage) (turn, error) {
	return s.use(ctx, func(e engine) (turn, error) { return s.rate(ctx, e) })
}

func (s stage) rate(ctx context.Context, e engine) (turn, error) {
	w := s.work
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
	rest(ctx, s.warm)
	from := s.used(e)
	phase.Store(counting)
	rest(ctx, s.length)
	ended := func() int { mu.Lock(); defer mu.Unlock(); return len(took) }
	for end := time.Now().Add(longer); ended() < w.clients && time.Now().Before(end) && ctx.Err() == nil; {
		rest(ctx, 100*time.Millisecond)
	}
	phase.Store(over)
	to := s.used(e)
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return turn{}, err
	}
	n := float64(len(took))
	if n == 0 {
		return turn{}, fmt.Errorf("no run of %s has ended in %s: give -window more time", w.name,
			s.length+longer)
	}
	t := turn{Runs: n, Rate: n / to.at.Sub(from.at).Seconds(), P50: quantile(took, 0.5), P99: quantile(took, 0.99)}
	t.since(from, to, n)
	return t, nil
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

// processorOf returns the processor time of another process, or 0 if there is none.
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
	took []float64 // the latencies in milliseconds
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
