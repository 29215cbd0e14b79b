package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// slowJournal is a journal whose appends take some time, like the sync of a disk.
type slowJournal struct {
	journal.Journal
	appends atomic.Int64
	count   bool         // count the entries of batches
	largest atomic.Int64 // entries of the largest batch
	latency time.Duration
}

func (j *slowJournal) Append(ctx context.Context, b *journal.Batch) error {
	j.appends.Add(1)
	n := int64(0)
	for rest := b.Encoded; j.count && len(rest) > 0; n++ {
		_, rest, _ = core.ReadEntry(rest)
	}
	j.largest.Store(max(j.largest.Load(), n))
	start := time.Now()
	err := j.Journal.Append(ctx, b)
	if wait := j.latency - time.Since(start); wait > 0 {
		<-time.After(wait)
	}
	return err
}

func openBench(b *testing.B, latency time.Duration) (*Engine, *slowJournal) {
	j := &slowJournal{Journal: memory.New(), latency: latency}
	w := new(instantWorkers)
	e, err := New(Config{Journal: j, Workers: w, Kinds: plans, Retention: time.Nanosecond})
	if err != nil {
		b.Fatal(err)
	}
	w.e = e
	if err := e.Open(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	return e, j
}

// closedLoop lets n callers start runs at the same time. Each starts its next run when the last one has ended.
func closedLoop(b *testing.B, e *Engine, n int, p plan) []time.Duration {
	def := p.definition()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []time.Duration
	for range n {
		wg.Go(func() {
			var mine []time.Duration
			for left.Add(-1) >= 0 {
				start := time.Now()
				s, err := e.Start(context.Background(), StartRequest{Definition: def})
				if err == nil {
					_, err = e.Result(context.Background(), s.Run)
				}
				if err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all
}

func steps(n int) []planStep {
	return slices.Repeat([]planStep{task()}, n)
}

func benchRuns(b *testing.B, clients, n int, latency time.Duration) {
	e, j := openBench(b, latency)
	p := flow("bench", steps(n)...)
	b.ReportAllocs()
	b.ResetTimer()
	all := closedLoop(b, e, clients, p)
	b.StopTimer()
	sec := b.Elapsed().Seconds()
	b.ReportMetric(float64(b.N)/sec, "runs/s")
	b.ReportMetric(float64(b.N*n)/sec, "steps/s")
	b.ReportMetric(float64(j.appends.Load())/sec, "commits/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkOneStep(b *testing.B) { benchRuns(b, 256, 1, 0) }
func BenchmarkTenStep(b *testing.B) { benchRuns(b, 256, 10, 0) }
func BenchmarkLatency(b *testing.B) { benchRuns(b, 1, 1, 0) }
