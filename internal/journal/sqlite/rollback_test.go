package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
)

// TestRolledBackNames checks that other names get the numbers of a batch that is refused after its names and
// definitions got them. When the batch's names and definitions come again, they get numbers of their own.
func TestRolledBackNames(t *testing.T) {
	a := newAppender(t)
	bad := refusedBatch(1)
	bad.Epoch, bad.Seq = a.lease.Epoch, 1
	if err := a.j.Append(t.Context(), bad); err == nil {
		t.Fatal("a history with a piece twice was accepted")
	}
	a.append(*namedBatch(2))
	a.append(*namedBatch(1))
	checkNamed(t, a.j, 1)
	checkNamed(t, a.j, 2)
}

// TestRolledBackGroup does the same with two batches in one transaction. The other one is saved by itself after that.
func TestRolledBackGroup(t *testing.T) {
	j := openedWith(t, filepath.Join(t.TempDir(), "pawl.db"), 2)
	batches := []*appending{{batch: namedBatch(2)}, {batch: refusedBatch(1)}}
	for p, a := range batches {
		lease, err := j.Acquire(t.Context(), p, "test")
		if err != nil {
			t.Fatal(err)
		}
		a.batch.Partition, a.batch.Epoch, a.batch.Seq = p, lease.Epoch, 1
	}
	j.mu.Lock()
	j.commit(batches...)
	j.mu.Unlock()
	if batches[0].err != nil || batches[1].err == nil {
		t.Fatalf("the good batch: %v, the other one: %v", batches[0].err, batches[1].err)
	}
	again := namedBatch(1)
	again.Partition, again.Epoch, again.Seq = 1, batches[1].batch.Epoch, 1
	if err := j.Append(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	checkNamed(t, j, 1)
	checkNamed(t, j, 2)
}

// refusedBatch returns a named batch that the database refuses after all its names were written.
func refusedBatch(n int) *journal.Batch {
	b := namedBatch(n)
	b.View.History = append(b.View.History, b.View.History[0])
	return b
}

// namedBatch returns a batch with a run whose names and definitions no other batch has: one definition that the batch
// has, and one that it only refers to.
func namedBatch(n int) *journal.Batch {
	v := &journal.View{}
	viewRun(v, 2*n, uint64(n), false)
	viewRun(v, 2*n+1, uint64(n), false)
	for i := range v.Runs {
		v.Runs[i].Workflow, v.Runs[i].Definition = fmt.Sprint("workflow ", n), core.DefinitionID{byte(n), byte(i)}
		v.Attempts[i].Worker, v.Attempts[i].Outcome = fmt.Sprint("worker ", n), fmt.Sprint("outcome ", n)
	}
	return &journal.Batch{View: v, Definitions: []journal.Definition{{
		ID: core.DefinitionID{byte(n)}, Kind: "flow", Name: fmt.Sprint("workflow ", n), Source: []byte("steps: []"),
	}}}
}

func checkNamed(t *testing.T, j *Journal, n int) {
	t.Helper()
	want := namedBatch(n)
	page, err := j.List(t.Context(), journal.Query{Workflow: fmt.Sprint("workflow ", n)})
	if err != nil || len(page.Runs) != 2 {
		t.Fatalf("%d runs of workflow %d: %v", len(page.Runs), n, err)
	}
	for i, row := range page.Runs { // the newest first
		if wanted := want.View.Runs[1-i]; row.ID != wanted.ID || row.Definition != wanted.Definition {
			t.Errorf("workflow %d: run %s has definition %s, want %s", n, row.ID, row.Definition, wanted.Definition)
		}
	}
	attempts, err := j.Attempts(t.Context(), journaltest.RunID(2*n))
	if wanted := want.View.Attempts[0]; err != nil || len(attempts) != 1 || attempts[0] != wanted {
		t.Errorf("attempts of workflow %d: %+v, want %+v, %v", n, attempts, wanted, err)
	}
	if d, err := j.Definition(t.Context(), want.Definitions[0].ID); err != nil || d.Name != want.Definitions[0].Name {
		t.Errorf("the definition of workflow %d: %+v, %v", n, d, err)
	}
}

// TestPruneLeavesNothing checks that no table has a row of a run that was pruned.
func TestPruneLeavesNothing(t *testing.T) {
	a := newAppender(t)
	v := &journal.View{}
	viewRun(v, 1, 1, false)
	viewRun(v, 2, 1, false)
	v.Runs[0].Labels = "team=a"
	a.append(journal.Batch{View: v})
	count := func() (total int64) {
		for _, table := range []string{"runs_data", "steps_data", "attempts_data", "history", "labels"} {
			n, err := queryInt(a.j.w.conn, "SELECT count(*) FROM "+table)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		return total
	}
	if n := count(); n != 4*2+1 {
		t.Fatalf("two runs have %d rows", n)
	}
	old := journal.Old{Before: instant0 + core.Time(1e9), Limit: 10}
	if n, err := a.j.Prune(t.Context(), 0, old); err != nil || n != 2 {
		t.Fatalf("%d runs were pruned: %v", n, err)
	}
	if n := count(); n != 0 {
		t.Errorf("%d rows are left of two runs", n)
	}
}
