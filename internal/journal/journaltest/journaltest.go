// Package journaltest is the test suite that every journal must pass. It tests what the engine needs, and nothing else.
package journaltest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Store is an empty journal made for one test, with ways to open it again.
type Store struct {
	Journal journal.Journal
	// Reopen closes the journal and opens it again.
	Reopen func() journal.Journal
	// Crash opens what is durable now, as after a kill: the journal is not closed, and is no longer used.
	Crash func() journal.Journal
	// Expire ends the leases, as if the owners gave no sign of life. Nil: leases of this storage do not end like that.
	Expire func()
	// Rows returns a run's steps and attempts in the view, in order.
	Rows func(run core.RunID) ([]journal.StepRow, []journal.AttemptRow)
}

// Run runs the suite on journals with at least three partitions. open is called once for each test, and cleans up with
// t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"empty", testEmpty},
		{"append and tail", testTail},
		{"encoded entries", testEncoded},
		{"order of batches", testOrder},
		{"tail stops", testTailStops},
		{"private copies", testPrivate},
		{"fencing", testFencing},
		{"held", testHeld},
		{"renew", testRenew},
		{"lease that ends", testExpire},
		{"behind what was seen", testBehind},
		{"partitions", testPartitions},
		{"messages", testMessages},
		{"messages and crashes", testMessagesCrash},
		{"messages of a refused batch", testMessagesAtOnce},
		{"messages of a partition to itself", testMessagesKept},
		{"messages from both sides", testMessagesMany},
		{"definitions", testDefinitions},
		{"rows replace rows", testRows},
		{"rows of a run that ended come at once", testWhole},
		{"rows of a new run come at once", testNew},
		{"history and tail", testHistory},
		{"history twice", testHistoryTwice},
		{"large entries", testLarge},
		{"trim", testTrim},
		{"feeds", testFeeds},
		{"documents", testDocuments},
		{"documents of a partition", testPartitionDocuments},
		{"due", testDue},
		{"find", testFind},
		{"list", testList},
		{"labels", testLabels},
		{"search", testSearch},
		{"prune", testPrune},
		{"reopen", testReopen},
		{"crash", testCrash},
		{"concurrent readers", testConcurrent},
		{"cancelled context", testCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fixture{T: t, Store: open(t), ctx: t.Context()}
			f.j = f.Journal
			test.run(f)
		})
	}
}

// fixture is a journal with one owner of partition 0.
type fixture struct {
	*testing.T
	Store
	ctx   context.Context
	j     journal.Journal
	lease journal.Lease
}

func (f *fixture) acquire(partition int) journal.Lease {
	f.Helper()
	l, err := f.j.Acquire(f.ctx, partition, "test")
	if err != nil {
		f.Fatal(err)
	}
	l.Term = 0 // depends on the storage
	f.lease = l
	return l
}

// again releases partition 0 and acquires it.
func (f *fixture) again() journal.Lease {
	f.Helper()
	if err := f.j.Release(f.ctx, 0, f.lease.Epoch); err != nil {
		f.Fatal(err)
	}
	return f.acquire(0)
}

// append appends a batch to partition 0 after the last one.
func (f *fixture) append(v *journal.View, entries ...core.Entry) uint64 {
	f.Helper()
	f.lease.Last++
	b := &journal.Batch{Epoch: f.lease.Epoch, Seq: f.lease.Last, Entries: entries, View: v}
	if err := f.j.Append(f.ctx, b); err != nil {
		f.Fatal(err)
	}
	return b.Seq
}

// appendTo appends a part of the view to another partition than 0.
func (f *fixture) appendTo(partition int, v *journal.View) {
	f.Helper()
	l, err := f.j.Acquire(f.ctx, partition, "test")
	if err == nil {
		err = f.j.Append(f.ctx, &journal.Batch{Partition: partition, Epoch: l.Epoch, Seq: l.Last + 1, View: v})
	}
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) tail(partition int, after uint64) (seqs []uint64, entries []core.Entry) {
	f.Helper()
	err := f.j.Tail(f.ctx, partition, after, func(seq uint64, e []core.Entry) error {
		seqs = append(seqs, seq)
		entries = append(entries, e...)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	return seqs, entries
}

func (f *fixture) history(id core.RunID) journal.History {
	f.Helper()
	h, err := f.j.History(f.ctx, id)
	if err != nil {
		f.Fatal(err)
	}
	if len(h.Entries) > 0 && h.Size < len(h.Entries) {
		f.Errorf("%d entries have %d bytes", len(h.Entries), h.Size)
	}
	h.Size = 0 // it depends on the journal
	return h
}

func (f *fixture) list(q journal.Query) journal.Page {
	f.Helper()
	p, err := f.j.List(f.ctx, q)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func (f *fixture) fails(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: %v, expected %v", what, err, want)
	}
}

// RunID returns the id of the n-th run of a test. A later one sorts after an earlier one.
func RunID(n int) (id core.RunID) {
	const born = 1_780_000_000_000
	binary.BigEndian.PutUint64(id[:8], uint64(born+n)<<16|7<<12)
	id[8] = 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// at returns the instant n seconds after the first run's.
func at(n int) core.Time { return core.Time(1_780_000_000_000_000 + n*1_000_000) }

// signal returns a small entry of a run.
func signal(n int, text string) core.Entry {
	return core.Entry{Run: RunID(n), At: at(n), Records: []core.Record{
		core.SignalKept{Name: text, ID: "id", Payload: []byte(text)},
		core.AttemptReady{Step: core.StepID(n)},
	}}
}

// row returns a run's row with every column set.
func row(n int) journal.RunRow {
	return journal.RunRow{
		ID: RunID(n), Workflow: "backup", WorkflowID: fmt.Sprintf("wf-%d", n), Key: fmt.Sprintf("key-%d", n),
		Definition: core.DefinitionID{1, 2, 3}, Phase: core.RunWaiting, CreatedAt: at(n), Deadline: at(n + 100),
		Wake: at(n + 10), Parent: RunID(n + 500), Message: "größer", Applied: uint64(n),
	}
}

func piece(n int, seq uint64, entries ...core.Entry) journal.HistoryRow {
	h := journal.HistoryRow{Run: RunID(n), Seq: seq}
	for i := range entries {
		h.Entries = core.AppendHistory(h.Entries, &entries[i])
	}
	return h
}
