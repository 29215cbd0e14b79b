package journaltest

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// testRemove removes single runs among those of testPrune: it removes closed ones of the partition only.
func testRemove(f *fixture, ids []core.RunID) {
	f.Helper()
	for _, c := range []struct{ partition, run, want int }{
		{0, 21, 0}, // it is open
		{0, 2, 0},  // it is gone
		{1, 24, 0}, // it is in the other partition
		{0, 24, 1},
	} {
		n, err := f.j.Prune(f.ctx, c.partition, journal.Old{Run: ids[c.run]})
		f.fails("remove", err, nil)
		f.equal("removed", n, c.want)
	}
	_, err := f.j.History(f.ctx, ids[24])
	f.fails("history", err, journal.ErrNotFound)
	_, err = f.j.History(f.ctx, ids[21])
	f.fails("history", err, nil)
}
