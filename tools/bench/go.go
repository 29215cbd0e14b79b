package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
)

// The rows for the Go library measure the same things with Go functions.
var (
	goOneStep = pawl.Define("bench-one", func(ctx pawl.Context, n int) (int, error) {
		return pawl.Step(ctx, "step", func(context.Context) (int, error) { return n, nil })
	})
	goTenStep = pawl.Define("bench-ten", func(ctx pawl.Context, n int) (int, error) {
		for range 10 {
			if _, err := pawl.Step(ctx, "step", func(context.Context) (int, error) { return n, nil }); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	goCall = pawl.Define("bench-call", func(ctx pawl.Context, n int) (int, error) {
		for range 10 {
			if _, err := goHandler.Call(ctx, "step", n); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	goHandler = pawl.Handle("bench-handler", func(_ context.Context, n int) (int, error) { return n, nil })

	goSleep = pawl.Define("bench-sleep", func(ctx pawl.Context, _ int) (int, error) {
		return 0,
			pawl.Sleep(ctx, "sleep", time.Hour)
	})
	goLong = pawl.Define("bench-long", func(ctx pawl.Context, steps int) (int, error) {
		for i := range steps {
			name := "step " + strconv.Itoa(i)
			if _, err := pawl.Step(ctx, name, func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		_, err := pawl.Event[int]("end").Wait(ctx)
		return steps, err
	})
)

// goHeld returns a workflow whose only step runs until it is told to end. It counts the steps that have begun.
func goHeld(began *atomic.Int64, end <-chan struct{}) *pawl.Workflow[int, int] {
	return pawl.Define("bench-held", func(ctx pawl.Context, n int) (int, error) {
		return pawl.Step(ctx, "step", func(ctx context.Context) (int, error) {
			began.Add(1)
			select {
			case <-end:
			case <-ctx.Done():
			}
			return n, nil
		})
	})
}

// goAttempts measures the memory of runs whose attempts run: state, stacks, and the worker's data.
func goAttempts(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 10_000, 2_000)
	end := make(chan struct{})
	var began atomic.Int64
	held := goHeld(&began, end)
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(s.dir, databaseFile), Workflows: []pawl.Definition{held}, Concurrency: n,
	})
	if err != nil {
		return Row{}, err
	}
	err = each(ctx, n, inFlight, func(ctx context.Context, _ int) error { // so that the database's caches are full
		run, err := goOneStep.Start(ctx, eng, "", 1)
		if err == nil {
			_, err = run.Result(ctx)
		}
		return err
	})
	if err != nil {
		return Row{}, errors.Join(err, eng.Close())
	}
	before := settledMemory()
	runs := make([]pawl.Run[int], n)
	err = each(ctx, n, inFlight, func(ctx context.Context, i int) (err error) {
		runs[i], err = held.Start(ctx, eng, "", i)
		return err
	})
	if err == nil {
		err = until(ctx, func() bool { return began.Load() == int64(n) })
	}
	rest(ctx, 6*time.Second) // bodies leave memory when their steps have run for a moment
	added := max(settledMemory()-before, 0)
	close(end)
	if err == nil {
		err = each(ctx, n, inFlight, func(ctx context.Context, i int) error {
			_, err := runs[i].Result(ctx)
			return err
		})
	}
	if err = errors.Join(err, eng.Close()); err != nil {
		return Row{}, err
	}
	row := attemptsRow(added, n, 12)
	row.DB, err = folderBytes(s.dir)
	return row, err
}

// goRows returns the names of these rows.
func goRows() []string {
	return slices.DeleteFunc(Names(), func(name string) bool {
		return !strings.HasPrefix(name, "go-") && name != "inflight" && name != "payload"
	})
}

func (s *session) openGo(ctx context.Context) (*pawl.Engine, error) {
	eng, err := pawl.Open(ctx, pawl.Config{
		Database:  "sqlite:" + filepath.Join(s.dir, databaseFile),
		Workflows: []pawl.Definition{goOneStep, goTenStep, goCall, goSleep, goLong, goPayload},
	})
	if err != nil {
		return nil, err
	}
	if err := eng.Serve("", 1000, goHandler); err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return eng, nil
}

// goLoop makes clients start runs of a workflow and wait for them.
func (s *session) goLoop(ctx context.Context, eng *pawl.Engine, w *pawl.Workflow[int, int], clients int,
	length time.Duration,
) (window, error) {
	warm := pick(s, 3*time.Second, 500*time.Millisecond)
	return closedLoop(ctx, clients, warm, length, func(ctx context.Context) error {
		run, err := w.Start(ctx, eng, "", 1)
		if err == nil {
			_, err = run.Result(ctx)
		}
		return err
	}, s.sampleFloor)
}

func goRate(ctx context.Context, s *session, w *pawl.Workflow[int, int], unit string, steps, clients int) (Row, error) {
	eng, err := s.openGo(ctx)
	if err != nil {
		return Row{}, err
	}
	win, err := s.goLoop(ctx, eng, w, clients, s.length())
	if closed := eng.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Row{}, err
	}
	row := win.row(unit, steps)
	row.cost = win.cost()
	row.detail = fmt.Sprintf("cpu %.3g ms a run%s", row.cost, win.usage)
	row.DB, err = folderBytes(s.dir)
	return row, err
}

func goOneSteps(ctx context.Context, s *session) (Row, error) {
	row, err := goRate(ctx, s, goOneStep, "runs/s", 1, inFlight)
	row.reached = row.Value >= 30000 && row.cost <= 0.05
	return row, err
}

func goTenSteps(ctx context.Context, s *session) (Row, error) {
	row, err := goRate(ctx, s, goTenStep, "steps/s", 10, inFlight)
	row.reached = row.Value >= 80000 && row.cost <= 0.25
	return row, err
}

func goCalls(ctx context.Context, s *session) (Row, error) {
	row, err := goRate(ctx, s, goCall, "steps/s", 10, inFlight)
	row.reached = row.cost <= 0.3
	return row, err
}

// started makes clients do something that many times, and waits for the end. A window of time would see too little
// where many runs that began together end together.
func started(ctx context.Context, clients, times int, do func(context.Context) error) (window, error) {
	w := window{all: make([]time.Duration, times), done: times}
	stop := meter()
	err := each(ctx, times, clients, func(ctx context.Context, i int) error {
		from := time.Now()
		err := do(ctx)
		w.all[i] = time.Since(from)
		return err
	})
	w.usage, w.rss = stop(), resident()
	return w, err
}

// goInFlight compares the rates with few and many runs in flight. The value is the ratio of the last to the best
// one. The numbers take turns, so that a disturbance from outside hits all of them.
func goInFlight(ctx context.Context, s *session) (Row, error) {
	eng, err := s.openGo(ctx)
	if err != nil {
		return Row{}, err
	}
	clients := []int{16, inFlight, 1024, 4096}
	rates, costs := make([][]float64, len(clients)), make([][]float64, len(clients))
	var row Row
	for range pick(s, 3, 1) {
		for i, n := range clients {
			var win window
			win, err = started(ctx, n, max(pick(s, 8, 4)*n, pick(s, 8192, 1024)), func(ctx context.Context) error {
				run, err := goTenStep.Start(ctx, eng, "", 1)
				if err == nil {
					_, err = run.Result(ctx)
				}
				return err
			})
			if err != nil {
				return Row{}, errors.Join(err, eng.Close())
			}
			rates[i], costs[i] = append(rates[i], win.rate()), append(costs[i], win.cost())
			s.logf("%d in flight: %.0f runs/s, cpu %.3g ms a run%s", n, win.rate(), win.cost(), win.usage)
			row = win.row("of the best rate", 1)
		}
	}
	if err = eng.Close(); err != nil {
		return Row{}, err
	}
	best := 0.0
	for i, n := range clients {
		best = max(best, median(rates[i]))
		row.detail += fmt.Sprintf("%d: %.0f runs/s at %.3g ms cpu; ", n, median(rates[i]), median(costs[i]))
	}
	row.detail = strings.TrimSuffix(row.detail, "; ")
	row.Value = median(rates[len(rates)-1]) / best
	row.reached = row.Value >= 0.9
	row.DB, err = folderBytes(s.dir)
	return row, err
}

func goLatency(ctx context.Context, s *session) (Row, error) {
	row, err := goRate(ctx, s, goOneStep, "runs/s", 1, 1)
	row.Value, row.Unit = row.P50, "ms"
	return row, err
}

// goSleepers measures how much memory sleeping Go runs take.
func goSleepers(ctx context.Context, s *session) (Row, error) {
	n := pick(s, 100_000, 20_000)
	eng, err := s.openGo(ctx)
	if err != nil {
		return Row{}, err
	}
	before := settledMemory()
	stop := meter()
	err = each(ctx, n, inFlight, func(ctx context.Context, _ int) error {
		_, err := goSleep.Start(ctx, eng, "", 0)
		return err
	})
	took := stop()
	var added int64
	if err == nil {
		rest(ctx, 3*time.Second) // bodies stay in memory for a moment, and the view is written later
		added = max(settledMemory()-before, 0)
	}
	if closed := eng.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Row{}, err
	}
	row := Row{Value: float64(added) / (1 << 20), Unit: "MiB", RSS: added, CPU: took.cpu.Seconds()}
	row.detail = fmt.Sprintf("%d runs", n)
	row.reached = row.Value <= 200
	row.DB, err = folderBytes(s.dir)
	return row, err
}

// goResume measures how long it takes to replay a body of ten thousand steps after a restart.
func goResume(ctx context.Context, s *session) (Row, error) {
	const steps = 10_000
	eng, err := s.openGo(ctx)
	if err != nil {
		return Row{}, err
	}
	run, err := goLong.Start(ctx, eng, "long", steps)
	if err != nil {
		return Row{}, err
	}
	err = until(ctx, func() bool {
		d, err := eng.DescribeRun(ctx, run.ID)
		return err == nil && d.Phase == "waiting"
	})
	if closed := eng.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Row{}, err
	}
	debug.FreeOSMemory()
	stop := meter()
	began := time.Now()
	if eng, err = s.openGo(ctx); err != nil {
		return Row{}, err
	}
	run = pawl.RunOf[int](eng, run.ID)
	if err = pawl.Event[int]("end").Send(ctx, eng, run.ID, 1); err == nil {
		_, err = run.Result(ctx)
	}
	row := Row{Value: float64(time.Since(began).Milliseconds()), Unit: "ms", CPU: stop().cpu.Seconds()}
	if closed := eng.Close(); err == nil {
		err = closed
	}
	row.detail = fmt.Sprintf("%d steps, the engine's start included", steps)
	row.reached = row.Value <= 1000
	return row, err
}
