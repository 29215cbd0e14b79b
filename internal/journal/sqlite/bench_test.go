package sqlite

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/policy"
)

// instant is a run's creation in these tests.
const instant0 core.Time = 1_780_000_000_000_000

// created returns the first entry of a run of one step; ended returns the last one.
func created(n int, sleep bool) core.Entry {
	run, at := journaltest.RunID(n), instant0+core.Time(n)*1000+417
	definition := core.DefinitionID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	e := core.Entry{Run: run, At: at, Records: []core.Record{
		core.RunCreated{Definition: definition, Workflow: "backup", Input: []byte(`{"n":1}`)},
	}}
	began := core.StepBegan{Spec: &core.StepSpec{}, Item: -1, Group: core.NoStep}
	if sleep {
		began.NextAt = at + 3_600_000_000
		e.Records = append(e.Records, began)
	} else {
		e.Records = append(e.Records, began, core.AttemptStarted{Worker: "local"})
	}
	return e
}

func ended1(n int) core.Entry {
	return core.Entry{Run: journaltest.RunID(n), At: instant0 + core.Time(n)*1000 + 900, Records: []core.Record{
		core.AttemptEnded{},
		core.StepEnded{Phase: core.StepSucceeded, Output: []byte(`{}`)},
		core.RunClosing{Phase: core.RunSucceeded},
		core.RunEnded{Phase: core.RunSucceeded},
	}}
}

// viewRun adds the rows of a run with one step to a part of the view.
func viewRun(v *journal.View, n int, seq uint64, sleep bool) {
	run, at := journaltest.RunID(n), instant0+core.Time(n)*1000+417
	first := created(n, sleep)
	row := journal.RunRow{
		ID: run, Workflow: "backup", Phase: core.RunSucceeded, CreatedAt: at, EndedAt: at + 900, Applied: seq,
		Definition: first.Records[0].(core.RunCreated).Definition,
	}
	step := journal.StepRow{
		Run: run, Name: "copy files", Phase: core.StepSucceeded, Attempt: 1, ScheduledAt: at, EndedAt: at + 900,
	}
	history := core.AppendHistory(nil, &first)
	if sleep {
		row.Phase, row.EndedAt, row.Wake = core.RunWaiting, 0, at+3_600_000_000
		step.Kind, step.Phase, step.EndedAt, step.NextAt = core.KindSleep, core.StepSuspended, 0, row.Wake
	} else {
		last := ended1(n)
		history = core.AppendHistory(history, &last)
		v.Attempts = append(v.Attempts, journal.AttemptRow{
			Run: run, Attempt: 1, ReadyAt: at, Started: at, Ended: at + 900, Worker: "local", Outcome: "succeeded",
			Limit: policy.LimitNone,
		})
	}
	v.Runs, v.Steps = append(v.Runs, row), append(v.Steps, step)
	v.History = append(v.History, journal.HistoryRow{Run: run, Seq: seq, Entries: history})
}

type appender struct {
	testing.TB
	j     *Journal
	lease journal.Lease
}

func newAppender(t testing.TB) *appender {
	a := &appender{TB: t, j: opened(t, filepath.Join(t.TempDir(), "pawl.db"))}
	var err error
	if a.lease, err = a.j.Acquire(t.Context(), 0, "test"); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *appender) append(b journal.Batch) {
	a.lease.Last++
	b.Epoch, b.Seq = a.lease.Epoch, a.lease.Last
	if err := a.j.Append(a.Context(), &b); err != nil {
		a.Fatal(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 10, 100, 200, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			a := newAppender(b)
			var encoded []byte
			for n := range size {
				e := ended1(n)
				e.Records = e.Records[:2] // one transition: an attempt and its step end
				encoded = core.AppendEntry(encoded, &e)
			}
			b.ReportAllocs()
			for b.Loop() {
				batch := journal.Batch{Encoded: encoded}
				if a.lease.Last%100 == 0 {
					batch.View = &journal.View{Through: a.lease.Last}
				}
				a.append(batch)
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(len(encoded)/size), "bytes/entry")
		})
	}
}

// BenchmarkView writes whole runs of one step into the view, a hundred a batch.
func BenchmarkView(b *testing.B) {
	for _, what := range []string{"run", "run update", "sleeper"} {
		b.Run(what, func(b *testing.B) {
			const size = 100
			a, n := newAppender(b), 0
			for b.Loop() {
				b.StopTimer()
				v := &journal.View{Through: a.lease.Last}
				for range size {
					n++
					if what == "run update" {
						viewRun(v, n%10_000, uint64(n), false)
					} else {
						viewRun(v, n, uint64(n), what == "sleeper")
					}
				}
				b.StartTimer()
				a.append(journal.Batch{View: v})
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size), "µs/run")
		})
	}
}

// BenchmarkSustained appends 200 entries and 25 whole runs of the view at a time for as long as the benchmark lasts, so
// checkpoints are part of it.
func BenchmarkSustained(b *testing.B) {
	const size, runs = 200, 25
	a := newAppender(b)
	var encoded []byte
	for n := range size {
		e := ended1(n)
		e.Records = e.Records[:2]
		encoded = core.AppendEntry(encoded, &e)
	}
	var took []time.Duration
	var log int64
	n := 0
	for b.Loop() {
		v := &journal.View{Through: a.lease.Last}
		for range runs {
			n++
			viewRun(v, n, uint64(n), false)
		}
		start := time.Now()
		a.append(journal.Batch{Encoded: encoded, View: v})
		took = append(took, time.Since(start))
		if len(took)%100 == 0 {
			if info, err := os.Stat(a.j.Path() + "-wal"); err == nil {
				log = max(log, info.Size())
			}
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
	b.ReportMetric(float64(log>>20), "log-MiB")
}

// BenchmarkFloor measures the cheapest possible commit on this device: one page and its header, written and synced.
func BenchmarkFloor(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, pageSize+24)
	i := 0
	for b.Loop() {
		binary.LittleEndian.PutUint32(page, uint32(i))
		if _, err := f.WriteAt(page, int64(i%1024*len(page))); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// TestSleeperSize measures how much space a sleeping run takes in the file.
func TestSleeperSize(t *testing.T) {
	const runs, size, most = 10_000, 200, 500
	a := newAppender(t)
	for n := 0; n < runs; {
		v := &journal.View{Through: a.lease.Last}
		var entries []core.Entry
		for range size {
			viewRun(v, n, a.lease.Last+1, true)
			entries = append(entries, created(n, true))
			n++
		}
		a.append(journal.Batch{Entries: entries, View: v})
	}
	path := a.j.Path()
	if err := a.j.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes a sleeping run", info.Size()/runs)
	if info.Size() > runs*most {
		t.Errorf("%d sleeping runs take %d bytes each, at most %d were planned", runs, info.Size()/runs, most)
	}
	if os.Getenv("PAWL_KEEP") != "" {
		copyFiles(t, path, os.Getenv("PAWL_KEEP"))
	}
}

// BenchmarkLoad reads runs back: one at a time as the engine loads them, and all of them as doctor does.
func BenchmarkLoad(b *testing.B) {
	const runs, size = 20_000, 200
	a := newAppender(b)
	for n := 0; n < runs; {
		v := &journal.View{Through: a.lease.Last}
		for range size {
			viewRun(v, n, a.lease.Last+1, false)
			n++
		}
		a.append(journal.Batch{View: v})
	}
	b.Run("history", func(b *testing.B) {
		n := 0
		for b.Loop() {
			if _, err := a.j.History(b.Context(), journaltest.RunID(n%runs)); err != nil {
				b.Fatal(err)
			}
			n += 7919
		}
	})
	b.Run("each", func(b *testing.B) {
		for b.Loop() {
			n := 0
			if err := a.j.EachRun(b.Context(), func(journal.Stored) error { n++; return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*runs), "µs/run")
	})
	b.Run("due", func(b *testing.B) {
		for b.Loop() {
			if _, err := a.j.Due(b.Context(), 0, 0, core.Time(1)<<60, 1000); err != nil {
				b.Fatal(err)
			}
		}
	})
}
