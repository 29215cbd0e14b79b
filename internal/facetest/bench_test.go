package facetest

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/journal/sqlite"
)

func tenSteps() *pawl.Workflow[int, int] {
	return pawl.Define("ten", func(ctx pawl.Context, n int) (int, error) {
		sum := 0
		for range 10 {
			v, err := pawl.Step(ctx, "add", func(context.Context) (int, error) { return n, nil })
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	})
}

func openBench(b *testing.B, w ...pawl.Definition) *pawl.Engine {
	b.Helper()
	j, err := sqlite.Open(filepath.Join(b.TempDir(), "b.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, err := pawl.Open(b.Context(), pawl.Config{Journal: j, Workflows: w})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = e.Close(), j.Close() })
	return e
}

// BenchmarkTenLocalSteps runs ten-step runs, many at once; one operation is one step.
func BenchmarkTenLocalSteps(b *testing.B) {
	w := tenSteps()
	e := openBench(b, w)
	runs := max(b.N/10, 1)
	b.ResetTimer()
	var wg sync.WaitGroup
	gate := make(chan struct{}, 512)
	for range runs {
		wg.Add(1)
		gate <- struct{}{}
		go func() {
			defer func() { <-gate; wg.Done() }()
			r, err := w.Start(b.Context(), e, "", 1)
			if err == nil {
				_, err = r.Result(b.Context())
			}
			if err != nil {
				b.Error(err)
			}
		}()
	}
	wg.Wait()
	b.ReportMetric(float64(10*runs)/b.Elapsed().Seconds(), "steps/s")
}

// BenchmarkOneStep starts a run with one step and waits for its result, one after the other.
func BenchmarkOneStep(b *testing.B) {
	w := pawl.Define("one", func(ctx pawl.Context, n int) (int, error) {
		return pawl.Step(ctx, "add", func(context.Context) (int, error) { return n, nil })
	})
	e := openBench(b, w)
	var took []time.Duration
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		r, err := w.Start(b.Context(), e, "", 1)
		if err == nil {
			_, err = r.Result(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkSleepers puts b.N runs to sleep and reports the memory that each costs.
func BenchmarkSleepers(b *testing.B) {
	w := pawl.Define("sleeps", func(ctx pawl.Context, _ int) (int, error) { return 0, pawl.Sleep(ctx, "nap", "30d") })
	e := openBench(b, w)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	gate := make(chan struct{}, 1024)
	for range b.N {
		wg.Add(1)
		gate <- struct{}{}
		go func() {
			defer func() { <-gate; wg.Done() }()
			if _, err := w.Start(b.Context(), e, "", 1); err != nil {
				b.Error(err)
			}
		}()
	}
	wg.Wait()
	b.StopTimer()
	<-time.After(5 * time.Second)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse)/(1<<20), "MiB")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
}

// BenchmarkResume replays a body of ten thousand steps.
func BenchmarkResume(b *testing.B) {
	const steps = 10_000
	w := pawl.Define("long", func(ctx pawl.Context, n int) (int, error) {
		for i := range n {
			if _, err := pawl.Step(ctx, fmt.Sprint("s", i),
				func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		_, err := pawl.Event[int]("go").Wait(ctx)
		return n, err
	})
	e := openBench(b, w)
	for range b.N {
		r, err := w.Start(b.Context(), e, "", steps)
		if err != nil {
			b.Fatal(err)
		}
		for {
			d, err := e.DescribeRun(b.Context(), r.ID)
			if err != nil {
				b.Fatal(err)
			}
			if d.Phase == "waiting" {
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(2 * time.Second) // it leaves memory
		start := time.Now()
		if err := pawl.Event[int]("go").Send(b.Context(), e, r.ID, 1); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Result(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "resume-ms")
	}
}

// BenchmarkUpdatesBesideEvents sends b.N updates to one run and as many events to another one, a hundred of each in
// turn, so that what else the machine does hits both. It reports the time of an update in times of an event.
func BenchmarkUpdatesBesideEvents(b *testing.B) {
	const add, plus = pawl.Update[int, int]("add"), pawl.Event[int]("plus")
	updates := pawl.Define("updates", func(ctx pawl.Context, n int) (sum int, err error) {
		for range n {
			if err := add.Handle(ctx, nil, func(_ pawl.Context, by int) (int, error) {
				sum += by
				return sum, nil
			}); err != nil {
				return 0, err
			}
		}
		return sum, nil
	})
	events := pawl.Define("events", func(ctx pawl.Context, n int) (sum int, err error) {
		for range n {
			by, err := plus.Wait(ctx)
			if err != nil {
				return 0, err
			}
			sum += by
		}
		return sum, nil
	})
	e := openBench(b, updates, events)
	asked, sent := started(b, e, updates, "updates", b.N), started(b, e, events, "events", b.N)
	var ofUpdates, ofEvents time.Duration
	for from := 0; from < b.N; from += 100 {
		n, begin := min(100, b.N-from), time.Now()
		for range n {
			if _, err := add.Send(b.Context(), e, asked.ID, 1); err != nil {
				b.Fatal(err)
			}
		}
		ofUpdates += time.Since(begin)
		begin = time.Now()
		for range n {
			if err := plus.Send(b.Context(), e, sent.ID, 1); err != nil {
				b.Fatal(err)
			}
		}
		ofEvents += time.Since(begin)
	}
	for _, r := range []pawl.Run[int]{asked, sent} {
		if sum, err := r.Result(b.Context()); err != nil || sum != b.N {
			b.Fatal(sum, err)
		}
	}
	b.ReportMetric(float64(ofUpdates)/float64(ofEvents), "events")
}
