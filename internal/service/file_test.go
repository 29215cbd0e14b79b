package service

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

func testReader(j journal.Journal) *reader {
	read := func(journal.Definition) (*Prepared, error) { return &Prepared{Definition: &core.Definition{}}, nil }
	return NewFile(j, read, time.Now).src.(*reader)
}

// TestReaderWatchesToTheEnd checks that watching ends when the run ends, even if work of the run stops later. It does
// not end at an end that a retry took back.
func TestReaderWatchesToTheEnd(t *testing.T) {
	ended := []core.Record{core.RunEnded{Phase: core.RunTerminated}}
	stopped := []core.Record{core.AttemptStopped{}}
	reopened := []core.Record{core.RunReopened{}}
	for _, c := range []struct {
		name  string
		then  [][]core.Record
		still bool
	}{
		{name: "ended", then: [][]core.Record{ended}},
		{name: "stopped later", then: [][]core.Record{ended, stopped}},
		{name: "opened again", then: [][]core.Record{ended, stopped, reopened, stopped}, still: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, id := memory.New(), core.RunID{1}
				lease, err := j.Acquire(t.Context(), 0, "test")
				if err != nil {
					t.Fatal(err)
				}
				b := &journal.Batch{
					Epoch: lease.Epoch, Seq: 1,
					Entries: []core.Entry{{Run: id, Records: []core.Record{core.RunCreated{}}}},
				}
				for _, records := range c.then {
					b.Entries = append(b.Entries, core.Entry{Run: id, Records: records})
				}
				if err := j.Append(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n := 0
				err = testReader(j).Watch(ctx, id, 0, func(core.Entry) error { n++; return nil })
				if (err != nil) != c.still || n != len(b.Entries) {
					t.Fatalf("%d of %d entries: %v", n, len(b.Entries), err)
				}
			})
		})
	}
}

// moved is a journal whose runs move from the tail to the view after a read of either.
type moved struct {
	journal.Journal
	move  func()
	after int // number of further reads
	tails int // how often the tail was read
}

func (m *moved) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	defer m.looked()
	return m.Journal.List(ctx, q)
}

func (m *moved) Tail(ctx context.Context, partition int, after uint64, fn func(uint64, []core.Entry) error) error {
	defer m.looked()
	m.tails++
	return m.Journal.Tail(ctx, partition, after, fn)
}

func (m *moved) looked() {
	if m.after > 0 {
		m.after--
		return
	}
	if move := m.move; move != nil {
		m.move = nil
		move()
	}
}

// TestReaderListsWhatMoves checks that a run is listed once if a writer moves it from the tail to the view while both
// are read, between the two reads or after both.
func TestReaderListsWhatMoves(t *testing.T) {
	for after := range 2 {
		testListed(t, after)
	}
}

func testListed(t *testing.T, after int) {
	t.Helper()
	j, id := memory.New(), core.RunID{1}
	lease, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	def := core.DefinitionID{1}
	entry := core.Entry{Run: id, Records: []core.Record{core.RunCreated{Definition: def}}}
	if err := j.Append(t.Context(), &journal.Batch{
		Epoch: lease.Epoch, Seq: 1,
		Entries: []core.Entry{entry}, Definitions: []journal.Definition{{ID: def}},
	}); err != nil {
		t.Fatal(err)
	}
	m := &moved{Journal: j, after: after}
	m.move = func() {
		v := &journal.View{
			Runs:    []journal.RunRow{{ID: id, Phase: core.RunRunning, Applied: 1}},
			History: []journal.HistoryRow{{Run: id, Seq: 1, Entries: core.AppendEntry(nil, &entry)}}, Through: 1,
		}
		if err := j.Append(t.Context(), &journal.Batch{Epoch: lease.Epoch, Seq: 2, View: v}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := testReader(m).List(t.Context(), journal.Query{})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != id {
		t.Errorf("moved after %d more reads: listed %+v: %v", after, page.Runs, err)
	}
}

// TestReaderListsWithOneLook checks that a page reads the tail once, however many runs the tail has. Each run is read
// only for the page it is on.
func TestReaderListsWithOneLook(t *testing.T) {
	const runs = 40
	j := memory.New()
	lease, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	def := journal.Definition{ID: core.DefinitionID{1}, Kind: journal.KindGo, Name: "x", Source: []byte("{}")}
	b := &journal.Batch{Epoch: lease.Epoch, Seq: 1, Definitions: []journal.Definition{def}}
	for i := range runs {
		created := core.RunCreated{Workflow: "x", Definition: def.ID}
		b.Entries = append(b.Entries, core.Entry{Run: core.RunID{byte(i + 1)}, Records: []core.Record{created}})
	}
	if err := j.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	m := &moved{Journal: j}
	var listed []core.RunID
	q := journal.Query{Limit: 15}
	for more := true; more; {
		m.tails = 0
		page, err := testReader(m).List(t.Context(), q)
		if err != nil || len(page.Runs) == 0 || m.tails != 1 {
			t.Fatalf("after %d runs: %v; the tail was read %d times", len(listed), err, m.tails)
		}
		for _, row := range page.Runs {
			listed = append(listed, row.ID)
		}
		more, q.After = page.More, listed[len(listed)-1]
	}
	if len(listed) != runs || listed[0] != (core.RunID{runs}) || listed[runs-1] != (core.RunID{1}) {
		t.Errorf("listed %d runs: %v", len(listed), listed)
	}
}

// TestFileReadsAllPartitions checks that the service of a file reads the runs of all partitions.
func TestFileReadsAllPartitions(t *testing.T) {
	j := memory.New()
	def := journal.Definition{
		ID: flow.ID([]byte(orderFlow)), Kind: journal.KindFlow,
		Name: "order", Source: []byte(orderFlow),
	}
	for p := range 3 {
		lease, err := j.Acquire(t.Context(), p, "test")
		if err != nil {
			t.Fatal(err)
		}
		created := core.RunCreated{Workflow: "order", Definition: def.ID, WorkflowID: fmt.Sprintf("in-%d", p)}
		err = j.Append(t.Context(), &journal.Batch{
			Partition: p, Epoch: lease.Epoch, Seq: 1, Definitions: []journal.Definition{def},
			Entries: []core.Entry{{Run: core.RunID{byte(p + 1)}, Records: []core.Record{created}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s := NewFile(j, readFlow, time.Now)
	page, err := s.Runs(t.Context(), api.Query{})
	if err != nil || len(page.Runs) != 3 {
		t.Fatalf("%+v %v", page, err)
	}
	for p := range 3 {
		if r, err := s.Run(t.Context(), fmt.Sprintf("in-%d", p)); err != nil ||
			r.Run != (core.RunID{byte(p + 1)}).String() {
			t.Errorf("partition %d: %+v, %v", p, r, err)
		}
	}
}
