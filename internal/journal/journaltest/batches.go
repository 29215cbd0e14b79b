package journaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

func testEmpty(f *fixture) {
	f.equal("lease", f.acquire(0), journal.Lease{Epoch: 1})
	seqs, _ := f.tail(0, 0)
	f.equal("batches", len(seqs), 0)
	f.equal("runs", f.list(journal.Query{}), journal.Page{})
	_, err := f.j.History(f.ctx, RunID(1))
	f.fails("history", err, journal.ErrNotFound)
	_, err = f.j.Definition(f.ctx, core.DefinitionID{1})
	f.fails("definition", err, journal.ErrNotFound)
	_, err = f.j.Find(f.ctx, journal.Lookup{WorkflowID: "x"})
	f.fails("find", err, journal.ErrNotFound)
	due, err := f.j.Due(f.ctx, 0, 0, at(1000), 10)
	f.fails("due", err, nil)
	f.equal("due", len(due), 0)
	n, err := f.j.Prune(f.ctx, 0, journal.Old{Before: at(1000), Limit: 10})
	f.fails("prune", err, nil)
	f.equal("pruned", n, 0)
}

func testTail(f *fixture) {
	f.acquire(0)
	var want []core.Entry
	for n := range 20 {
		batch := []core.Entry{signal(n, "a"), signal(n+1, strings.Repeat("long", n*1000))}
		f.append(nil, batch...)
		want = append(want, batch...)
	}
	f.append(nil) // an empty batch, which only tests the storage
	seqs, got := f.tail(0, 0)
	f.equal("entries", got, want)
	f.equal("batches", len(seqs), 21)
	for i, seq := range seqs {
		f.equal("sequence number", seq, uint64(i+1))
	}
	seqs, got = f.tail(0, 19)
	f.equal("late batches", seqs, []uint64{20, 21})
	f.equal("late entries", got, want[38:])
	seqs, _ = f.tail(0, 21)
	f.equal("after the last", len(seqs), 0)
	f.equal("lease", f.again().Last, uint64(21))
}

func testEncoded(f *fixture) {
	f.acquire(0)
	entries := []core.Entry{signal(1, "a"), signal(2, "b")}
	b := &journal.Batch{Epoch: f.lease.Epoch, Seq: 1}
	for i := range entries {
		b.Encoded = core.AppendEntry(b.Encoded, &entries[i])
	}
	if err := f.j.Append(f.ctx, b); err != nil {
		f.Fatal(err)
	}
	clear(b.Encoded) // the journal must not keep it
	_, got := f.tail(0, 0)
	f.equal("entries", got, entries)
}

func testOrder(f *fixture) {
	f.acquire(0)
	f.append(nil, signal(1, "a"))
	for _, seq := range []uint64{0, 1, 3} {
		b := &journal.Batch{Epoch: f.lease.Epoch, Seq: seq, Entries: []core.Entry{signal(2, "b")}}
		if err := f.j.Append(f.ctx, b); err == nil {
			f.Errorf("batch %d was accepted after batch 1", seq)
		}
	}
	f.append(nil, signal(3, "c"))
	seqs, _ := f.tail(0, 0)
	f.equal("batches", seqs, []uint64{1, 2})
}

func testTailStops(f *fixture) {
	f.acquire(0)
	for n := range 5 {
		f.append(nil, signal(n, "a"))
	}
	stop := errors.New("enough")
	calls := 0
	err := f.j.Tail(f.ctx, 0, 0, func(uint64, []core.Entry) error {
		// fn may call the journal.
		if _, err := f.j.List(f.ctx, journal.Query{}); err != nil {
			f.Error(err)
		}
		if calls++; calls == 2 {
			return stop
		}
		return nil
	})
	f.fails("tail", err, stop)
	f.equal("calls", calls, 2)
}

func testPrivate(f *fixture) {
	f.acquire(0)
	e := signal(1, "mine")
	payload := e.Records[0].(core.SignalKept).Payload
	r, h := row(1), piece(1, 1, signal(1, "mine"))
	f.append(&journal.View{Runs: []journal.RunRow{r}, History: []journal.HistoryRow{h}}, e)
	clear(payload)
	clear(h.Entries)
	want := []core.Entry{signal(1, "mine")}
	for range 2 {
		_, got := f.tail(0, 0)
		f.equal("tail", got, want)
		history := f.history(RunID(1)).Entries
		f.equal("history", history, want)
		clear(got[0].Records[0].(core.SignalKept).Payload)
		clear(history[0].Records[0].(core.SignalKept).Payload)
	}
}

func testFencing(f *fixture) {
	old := f.acquire(0)
	f.append(nil, signal(1, "a"))
	next := f.again()
	if next.Epoch <= old.Epoch || next.Last != 1 {
		f.Fatalf("%+v after %+v", next, old)
	}
	stale := &journal.Batch{Epoch: old.Epoch, Seq: 2, Entries: []core.Entry{signal(2, "b")}}
	f.fails("the old owner's append", f.j.Append(f.ctx, stale), journal.ErrFenced)
	f.append(nil, signal(3, "c"))
	stale.Seq = 3
	f.fails("the old owner's append", f.j.Append(f.ctx, stale), journal.ErrFenced)
	_, got := f.tail(0, 0)
	f.equal("entries", got, []core.Entry{signal(1, "a"), signal(3, "c")})

	f.j = f.Reopen()
	if again := f.acquire(0); again.Epoch <= next.Epoch {
		f.Errorf("epoch %d after %d and a restart", again.Epoch, next.Epoch)
	}
}

// testHeld checks that Acquire refuses a partition that has an owner, and names the owner. Each partition has an owner
// of its own.
func testHeld(f *fixture) {
	f.acquire(0)
	for range 2 {
		_, err := f.j.Acquire(f.ctx, 0, "another")
		f.fails("acquire what is owned", err, journal.ErrHeld)
		if err == nil || !strings.Contains(err.Error(), "test") {
			f.Errorf("the error does not name the owner: %v", err)
		}
		f.append(nil, signal(1, "a")) // the owner can still append
	}
	other := f.lease
	f.acquire(1)
	f.fails("release by who is not the owner", f.j.Release(f.ctx, 1, f.lease.Epoch+7), nil)
	_, err := f.j.Acquire(f.ctx, 1, "another")
	f.fails("acquire what is owned", err, journal.ErrHeld)
	f.lease = other
	f.equal("lease", f.again().Last, uint64(2))
	f.j = f.Crash()
	f.equal("lease after a crash", f.acquire(0).Last, uint64(2))
}

// testRenew checks that an owner gets the state of its partition, until another one owns it.
func testRenew(f *fixture) {
	f.acquire(0)
	f.append(nil, signal(1, "a"))
	f.append(&journal.View{Through: 1}, signal(2, "b"))
	got, err := f.j.Renew(f.ctx, 0, f.lease.Epoch)
	f.fails("renew", err, nil)
	f.equal("epoch", got.Epoch, f.lease.Epoch)
	f.equal("last", got.Last, uint64(2))
	f.append(nil, signal(3, "c")) // the epoch stays the same
	_, err = f.j.Renew(f.ctx, 0, f.lease.Epoch+1)
	f.fails("renew with an epoch that nobody has", err, journal.ErrFenced)
	_, err = f.j.Renew(f.ctx, 5, 1)
	f.fails("renew what was never acquired", err, journal.ErrFenced)
	old := f.lease
	f.again()
	_, err = f.j.Renew(f.ctx, 0, old.Epoch)
	f.fails("renew by the old owner", err, journal.ErrFenced)
	f.fails("release by the old owner", f.j.Release(f.ctx, 0, old.Epoch), nil)
	f.append(nil, signal(4, "d")) // the former owner's Release has released nothing
	f.fails("release", f.j.Release(f.ctx, 0, f.lease.Epoch), nil)
	late := &journal.Batch{Epoch: f.lease.Epoch, Seq: f.lease.Last + 1, Entries: []core.Entry{signal(5, "e")}}
	f.fails("append after release", f.j.Append(f.ctx, late), journal.ErrFenced)
}

// testExpire checks that a lease lasts as long as its owner gives signs of life.
func testExpire(f *fixture) {
	if f.Expire == nil {
		f.Skip("leases end with the journal")
	}
	old := f.acquire(0)
	f.Expire()
	f.append(nil, signal(1, "a")) // no other owner came: this is a sign of life
	_, err := f.j.Acquire(f.ctx, 0, "another")
	f.fails("acquire what is owned", err, journal.ErrHeld)
	f.Expire()
	_, err = f.j.Renew(f.ctx, 0, old.Epoch)
	f.fails("renew", err, nil)
	_, err = f.j.Acquire(f.ctx, 0, "another")
	f.fails("acquire what is owned", err, journal.ErrHeld)
	f.Expire()
	if next := f.acquire(0); next.Epoch <= old.Epoch || next.Last != 1 {
		f.Fatalf("%+v after %+v", next, old)
	}
	stale := &journal.Batch{Epoch: old.Epoch, Seq: 2, Entries: []core.Entry{signal(2, "b")}}
	f.fails("the old owner's append", f.j.Append(f.ctx, stale), journal.ErrFenced)
	_, err = f.j.Renew(f.ctx, 0, old.Epoch)
	f.fails("the old owner's renewal", err, journal.ErrFenced)
	f.append(nil, signal(3, "c"))
}

func testPartitions(f *fixture) {
	for p := range 3 {
		l := f.acquire(p)
		for n := range p + 1 {
			b := &journal.Batch{Partition: p, Epoch: l.Epoch, Seq: uint64(n + 1), Entries: []core.Entry{signal(p, "x")}}
			if err := f.j.Append(f.ctx, b); err != nil {
				f.Fatal(err)
			}
		}
	}
	for range 2 {
		spans, err := f.j.Partitions(f.ctx)
		f.fails("partitions", err, nil)
		f.equal("partitions", spans, []journal.Span{
			{Partition: 0, Last: 1}, {Partition: 1, Last: 2}, {Partition: 2, Last: 3},
		})
		f.j = f.Reopen()
	}
	for p := range 3 {
		seqs, entries := f.tail(p, 0)
		f.equal("batches", len(seqs), p+1)
		for _, e := range entries {
			f.equal("run", e.Run, RunID(p))
		}
	}
	f.equal("lease", f.acquire(1).Last, uint64(2))
}

func testDefinitions(f *fixture) {
	f.acquire(0)
	d := journal.Definition{ID: core.DefinitionID{7}, Kind: "flow", Name: "backup", Source: []byte("steps: []\n")}
	other := journal.Definition{ID: core.DefinitionID{8}, Kind: "go", Name: "restore"}
	b := &journal.Batch{Epoch: f.lease.Epoch, Seq: 1, Definitions: []journal.Definition{d, other}}
	if err := f.j.Append(f.ctx, b); err != nil {
		f.Fatal(err)
	}
	// A definition that is stored does not change.
	changed := []journal.Definition{{ID: d.ID, Kind: "flow", Name: "changed"}}
	b = &journal.Batch{Epoch: f.lease.Epoch, Seq: 2, Definitions: changed}
	if err := f.j.Append(f.ctx, b); err != nil {
		f.Fatal(err)
	}
	for range 2 {
		got, err := f.j.Definition(f.ctx, d.ID)
		f.fails("definition", err, nil)
		f.equal("definition", got, d)
		got, err = f.j.Definition(f.ctx, other.ID)
		f.fails("definition", err, nil)
		f.equal("name", got.Name+" "+got.Kind, "restore go")
		f.equal("source", len(got.Source), 0)
		f.j = f.Reopen()
	}
	// A run may name a definition that was never stored. It is still not found.
	f.acquire(0)
	r := row(1)
	f.append(&journal.View{Runs: []journal.RunRow{r}})
	_, err := f.j.Definition(f.ctx, r.Definition)
	f.fails("a definition that never came", err, journal.ErrNotFound)
	d.ID = r.Definition
	f.lease.Last++
	b = &journal.Batch{Epoch: f.lease.Epoch, Seq: f.lease.Last, Definitions: []journal.Definition{d}}
	f.fails("append", f.j.Append(f.ctx, b), nil)
	got, err := f.j.Definition(f.ctx, d.ID)
	f.fails("a definition that came late", err, nil)
	f.equal("definition", got, d)
}

func testReopen(f *fixture) {
	f.acquire(0)
	for n := range 3 {
		f.append(&journal.View{
			Runs: []journal.RunRow{row(n)}, History: []journal.HistoryRow{piece(n, uint64(n+1), signal(n, "a"))},
		}, signal(n, "a"))
	}
	f.append(&journal.View{Through: 2})
	for range 3 {
		f.j = f.Reopen()
		l := f.acquire(0)
		f.equal("last", l.Last, uint64(4))
		f.equal("through", l.Through, uint64(2))
		_, entries := f.tail(0, 2)
		f.equal("tail", entries, []core.Entry{signal(2, "a")})
		f.equal("history", f.history(RunID(1)), journal.History{Applied: 1, Entries: []core.Entry{signal(1, "a")}})
		f.equal("rows", f.list(journal.Query{}).Runs, []journal.RunRow{row(2), row(1), row(0)})
	}
	f.append(nil, signal(9, "z"))
}

func testCrash(f *fixture) {
	f.acquire(0)
	var want []core.Entry
	for n := range 200 {
		f.append(&journal.View{Runs: []journal.RunRow{row(n)}, Through: uint64(n / 2)}, signal(n, "a"))
		want = append(want, signal(n, "a"))
	}
	f.j = f.Crash()
	l := f.acquire(0)
	f.equal("last", l.Last, uint64(200))
	f.equal("through", l.Through, uint64(99))
	_, got := f.tail(0, l.Through)
	f.equal("tail", got, want[99:])
	f.equal("rows", len(f.list(journal.Query{Limit: 1000}).Runs), 200)
	f.append(nil, signal(200, "b"))
}

// testConcurrent reads while one owner appends. Each reader must see whole batches, and rows and history of the same
// commit.
func testConcurrent(f *fixture) {
	f.acquire(0)
	write := func(n int) {
		r := row(0)
		r.Applied = uint64(n)
		f.append(&journal.View{
			Runs: []journal.RunRow{r}, History: []journal.HistoryRow{piece(0, uint64(n), signal(0, fmt.Sprint(n)))},
			Through: uint64(n - 1),
		}, signal(0, "a"))
	}
	write(1)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				h, err := f.j.History(f.ctx, RunID(0))
				if err != nil || h.Applied != uint64(len(h.Entries)) {
					f.Errorf("history to %d has %d entries: %v", h.Applied, len(h.Entries), err)
					return
				}
				if _, err := f.j.List(f.ctx, journal.Query{}); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	for n := range 100 {
		write(n + 2)
	}
	close(done)
	readers.Wait()
}

func testCancelled(f *fixture) {
	f.acquire(0)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.j.List(ctx, journal.Query{})
	f.fails("list", err, context.Canceled)
	b := &journal.Batch{Epoch: f.lease.Epoch, Seq: 1, Entries: []core.Entry{signal(1, "a")}}
	f.fails("append", f.j.Append(ctx, b), context.Canceled)
	f.append(nil, signal(1, "a"))
}
