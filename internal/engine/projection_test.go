package engine

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestManyActiveRunsAreWrittenSeldom checks that a batch with entries takes the rows of an active run a second after
// its first entry, and the later the more runs are active. When nothing else is to be saved, a batch takes them after a
// second.
func TestManyActiveRunsAreWrittenSeldom(t *testing.T) {
	for name, c := range map[string]struct {
		runs int
		want time.Duration
	}{
		"few":       {manyBehind / 2, settleAge},
		"many":      {4 * manyBehind, 4 * settleAge},
		"very many": {20 * manyBehind, maxSettle},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, -1) // the workers report nothing
			began := r.now
			for range c.runs - 1 {
				r.start(flow("active", task()))
			}
			for r.commit() {
			}
			// A run more at a time, which is one of them, makes the batches of a busy partition.
			written := func() bool {
				r.start(flow("one more", task()))
				b := r.p.Cut(r.now)
				rows := b.View != nil // the partition uses the batch again
				if err := r.journal.Append(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				r.p.Committed(r.now)
				return rows
			}
			r.now = began.Add(c.want - time.Millisecond)
			if written() {
				t.Errorf("rows are written before %s", c.want)
			}
			if r.now = began.Add(c.want * 2); !written() {
				t.Errorf("no rows are written after %s", 2*c.want)
			}
		})
	}

	const runs = 4 * manyBehind
	r := newRig(t, -1)
	for range runs {
		r.start(flow("active", task()))
	}
	for r.commit() {
	}
	r.pass(2 * settleAge)
	page, err := r.journal.List(t.Context(), journal.Query{Limit: 2 * runs})
	if err != nil || len(page.Runs) != runs {
		t.Fatalf("a partition with nothing else to do has written %d of %d runs, %v", len(page.Runs), runs, err)
	}
}

// TestRowsDoNotDelayTimers checks that a batch in which a timer has fired takes no rows, nor does one that is cut when
// a timer is due in a moment. Once very many runs wait to be written they join all the same, and when the engine ends.
func TestRowsDoNotDelayTimers(t *testing.T) {
	const many = 100
	for name, c := range map[string]struct {
		runs  int           // number of runs that wait to be written
		dueIn time.Duration // the time until the timer fires; 0: it fires in the batch
		ends  bool          // the engine ends
		want  bool          // rows
	}{
		"no timer":               {runs: many, dueIn: time.Second, want: true},
		"one is due soon":        {runs: many, dueIn: timerAhead + time.Microsecond, want: true},
		"one is due in a moment": {runs: many, dueIn: timerAhead - time.Microsecond},
		"one has fired":          {runs: many},
		"very many runs wait":    {runs: manySettled, want: true},
		"the engine ends":        {runs: many, ends: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, -1)
			r.start(flow("timer", nap(2*time.Second), nap(time.Hour)))
			r.settle()
			r.now = r.now.Add(2*time.Second - c.dueIn)
			for range c.runs {
				r.start(flow("settled", nap(time.Hour)))
			}
			if r.p.Tick(r.now); c.ends {
				r.p.Flush()
			}
			if b := r.p.Cut(r.now); b == nil {
				t.Error("there is no batch")
			} else if rows := b.View != nil; rows != c.want {
				t.Errorf("the batch has rows: %v, want %v", rows, c.want)
			}
			// A batch is used again for a later one, which is not in a hurry.
			if r.p.pipeline.open.timed {
				t.Error("the next batch begins with a timer that has fired")
			}
		})
	}
}

// TestQuotaWithTimers checks that the journal's tail does not grow without end, also while timers fire all the time. A
// batch of rows alone takes few of them before a timer.
func TestQuotaWithTimers(t *testing.T) {
	const entries, now = 10, epoch
	for name, c := range map[string]struct {
		settled, tail, entries int
		flushing               bool
		calm, hurry            int // the result that is wanted
	}{
		"nothing has gathered":     {gatherRuns - 1, 1, entries, false, 0, 0},
		"runs have gathered":       {gatherRuns, 1, entries, false, entries + fewRuns, 0},
		"one less than very many":  {manySettled - 1, 1, entries, false, entries + fewRuns, 0},
		"very many":                {manySettled, 1, entries, false, entries + fewRuns, entries + fewRuns},
		"rows alone":               {gatherRuns, 1, 0, false, idleRuns, fewRuns},
		"the tail is long":         {gatherRuns, tailSoft + 1, entries, false, 2*entries + 256, 2*entries + 256},
		"rows alone, a long tail":  {gatherRuns, tailSoft + 1, 0, false, 256, 256},
		"the tail is very long":    {gatherRuns, tailHard + 1, entries, false, 2048, 2048},
		"the engine ends":          {gatherRuns, 1, entries, true, flushRuns, flushRuns},
		"the engine ends, no rows": {0, 1, entries, true, flushRuns, flushRuns},
	} {
		t.Run(name, func(t *testing.T) {
			v := projection{flushing: c.flushing}
			v.markBehind(new(run), 1, c.tail, now)
			for range c.settled {
				v.settled.push(new(run))
			}
			if calm, hurry := v.quota(c.entries, false, now), v.quota(c.entries, true, now); calm != c.calm ||
				hurry != c.hurry {
				t.Errorf("%d runs, %d in a hurry; want %d and %d", calm, hurry, c.calm, c.hurry)
			}
		})
	}
}

// TestRowsAreWrittenBeforeATimer checks that when nothing else is to be saved, rows are written although a timer is due
// in a moment. Otherwise the loop, which wakes for them, would find nothing to do again and again.
func TestRowsAreWrittenBeforeATimer(t *testing.T) {
	r := newRig(t, -1)
	r.start(flow("timer", nap(2*time.Second)))
	r.settle()
	for range gatherRuns / 2 {
		r.start(flow("settled", nap(time.Hour)))
	}
	r.commit()
	r.now = r.now.Add(2*time.Second - timerAhead/2)
	b := r.p.Cut(r.now)
	if b == nil || b.View == nil {
		t.Fatal("no rows are written")
	}
	if n := len(b.View.Runs); n > fewRuns {
		t.Errorf("%d rows are written, want at most %d", n, fewRuns)
	}
}

// TestRowsDoNotWaitForTimersForEver checks that the row of a run that ends when a timer fires is written although other
// timers fire all the time.
func TestRowsDoNotWaitForTimersForEver(t *testing.T) {
	r := newRig(t, -1)
	const between = quietAge / 2
	var naps []planStep
	for range (maxSettle + time.Second) / between {
		naps = append(naps, nap(between))
	}
	r.start(flow("timers", naps...))
	r.pass(time.Second)
	ended := r.start(flow("ended", nap(between)))
	for waited := time.Duration(0); ; waited += between {
		if waited > maxSettle {
			t.Fatalf("the row of the run is not written after %s", waited)
		}
		r.pass(between)
		page, err := r.journal.List(t.Context(), journal.Query{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Runs {
			if row.ID == ended && row.Phase == core.RunSucceeded {
				return
			}
		}
	}
}
