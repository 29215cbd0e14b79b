package journaltest

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// largeSignal returns a large entry of a run.
func largeSignal(n int, fill byte) core.Entry {
	e := signal(n, "large")
	e.Records[0] = core.SignalKept{Name: "large", Payload: bytes.Repeat([]byte{fill}, 2*journal.LargeEntry)}
	return e
}

// encodedAs encodes entries of a batch, and returns where the large ones are.
func encodedAs(seq uint64, entries ...core.Entry) (out []byte, found []journal.Large) {
	for i := range entries {
		from := len(out)
		out = core.AppendEntry(out, &entries[i])
		if len(out)-from >= journal.LargeEntry {
			found = append(found, journal.Large{Run: entries[i].Run, Seq: seq, From: from, To: len(out)})
		}
	}
	return out, found
}

// testLarge appends large entries, which a journal may store once for batch and history. Each stays there as long as
// the batch or the history does.
func testLarge(f *fixture) {
	f.acquire(0)
	batch := []core.Entry{
		signal(2, "small"), largeSignal(1, 'a'), largeSignal(2, 'b'), largeSignal(2, 'c'), signal(1, "small"),
	}
	f.lease.Last++
	b := &journal.Batch{Epoch: f.lease.Epoch, Seq: f.lease.Last, Feeds: []journal.Feed{{Name: "slow"}}}
	b.Encoded, b.Large = encodedAs(b.Seq, batch...)
	if err := f.j.Append(f.ctx, b); err != nil {
		f.Fatal(err)
	}
	first := b.Seq
	f.j = f.Crash()
	f.acquire(0)
	_, tail := f.tail(0, first-1)
	f.equal("the batch after a crash", tail, batch)

	// One history refers to its entry. The other one claims that a large entry is from a batch that does not have it.
	ofOne, ofTwo := []core.Entry{batch[1], batch[4]}, []core.Entry{batch[0], batch[2], batch[3]}
	v := &journal.View{Through: first}
	for n, entries := range [][]core.Entry{ofOne, ofTwo} {
		r := row(n + 1)
		r.Phase, r.EndedAt, r.Wake, r.Applied = core.RunSucceeded, at(n+1), 0, first
		h := journal.HistoryRow{Run: r.ID, Seq: first}
		h.Entries, h.Large = encodedAs(first, entries...)
		v.Runs, v.History = append(v.Runs, r), append(v.History, h)
	}
	v.History[1].Large[1].Seq++
	f.append(v)
	f.j = f.Crash()
	f.acquire(0)
	f.equal("history", f.history(RunID(1)).Entries, ofOne)
	f.equal("another history", f.history(RunID(2)).Entries, ofTwo)

	// The feed still needs the batch of a run that is deleted.
	n, err := f.j.Prune(f.ctx, 0, journal.Old{Before: at(2), Limit: 10})
	f.fails("prune", err, nil)
	f.equal("pruned", n, 1)
	f.trimAll()
	_, tail = f.tail(0, first-1)
	f.equal("the batch that a feed needs", tail[:len(batch)], batch)

	f.lease.Last++
	b = &journal.Batch{
		Epoch: f.lease.Epoch, Seq: f.lease.Last, Feeds: []journal.Feed{{Name: "slow", Removed: true}},
	}
	if err := f.j.Append(f.ctx, b); err != nil {
		f.Fatal(err)
	}
	f.trimAll()
	seqs, _ := f.tail(0, 0)
	if seqs[0] == first {
		f.Error("the batch is still there")
	}
	f.j = f.Reopen()
	f.acquire(0)
	f.equal("the history after the batch", f.history(RunID(2)).Entries, ofTwo)
	_, err = f.j.History(f.ctx, RunID(1))
	f.fails("the deleted run", err, journal.ErrNotFound)
}

// trimAll makes the journal delete all batches but the last ones.
func (f *fixture) trimAll() {
	f.Helper()
	for range 100 { // a journal may delete only a few batches at a time
		f.append(&journal.View{Through: f.lease.Last})
	}
}
