package journaltest

import "github.com/pawl-dev/pawl/internal/journal"

// testFeeds checks that batches that a feed has not seen are kept, even if the view has them. Positions survive a
// restart.
func testFeeds(f *fixture) {
	f.acquire(0)
	mark := func(feeds ...journal.Feed) {
		f.Helper()
		f.lease.Last++
		b := &journal.Batch{Epoch: f.lease.Epoch, Seq: f.lease.Last, Feeds: feeds}
		if err := f.j.Append(f.ctx, b); err != nil {
			f.Fatal(err)
		}
	}
	cover := func(n int) { // writes the view up to the last batch, many times
		for i := range n {
			f.append(&journal.View{Through: f.lease.Last + 1}, signal(i, "a"))
		}
	}
	first := func(after uint64) uint64 {
		f.Helper()
		seqs, _ := f.tail(0, after)
		if len(seqs) == 0 {
			f.Fatalf("no batch after %d is kept", after)
		}
		return seqs[0]
	}
	mark(journal.Feed{Name: "slow", Seq: 1}, journal.Feed{Name: "quick", Seq: 1})
	cover(200)
	f.equal("first batch kept", first(1), uint64(2))
	mark(journal.Feed{Name: "quick", Seq: 150})
	cover(100)
	f.equal("first batch kept for the slow one", first(1), uint64(2))

	f.j = f.Reopen()
	l := f.acquire(0)
	f.equal("feeds", l.Feeds, []journal.Feed{{Name: "quick", Seq: 150}, {Name: "slow", Seq: 1}})
	if l.FeedBytes < 300 || l.FeedBytes > 300*200 {
		f.Errorf("%d bytes are kept for feeds, of 300 small batches", l.FeedBytes)
	}
	cover(100)
	f.equal("first batch kept after opening", first(1), uint64(2))

	mark(journal.Feed{Name: "slow", Seq: 1, Lapsed: true})
	cover(100)
	if n := first(1); n == 2 || n > 151 {
		f.Errorf("after one feed lapsed the journal begins with batch %d, the other one is at 150", n)
	}
	mark(journal.Feed{Name: "quick", Removed: true})
	cover(300)
	if seqs, _ := f.tail(0, 0); len(seqs) > 0 && seqs[0] <= 151 {
		f.Errorf("without a feed the journal begins with batch %d", seqs[0])
	}
	f.j = f.Reopen()
	l = f.acquire(0)
	f.equal("feeds at the end", l.Feeds, []journal.Feed{{Name: "slow", Seq: 1, Lapsed: true}})
	f.equal("bytes kept for a lapsed feed", l.FeedBytes, int64(0))
}
