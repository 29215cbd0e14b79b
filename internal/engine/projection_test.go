package engine

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/journal"
)

// TestManyActiveRunsAreWrittenSeldom: a batch with entries takes the rows of an active run a second after its first
// entry, and the later the more runs are active. When nothing else is to be saved, a batch takes them after a second.
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
