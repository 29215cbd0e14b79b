package journaltest

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/journal"
)

// testBehind checks that a journal which lacks something of what was seen is refused until somebody
// accepts it.
func testBehind(f *fixture) {
	f.acquire(0)
	f.append(nil, signal(1, "a"))
	f.append(nil, signal(2, "b"))
	seen := f.j.Seen()
	f.equal("seen", seen.Partitions[0], journal.Stand{Epoch: f.lease.Epoch, Last: 2})
	f.fails("verify", f.j.Verify(f.ctx), nil)
	f.fails("release", f.j.Release(f.ctx, 0, f.lease.Epoch), nil)

	more := seen.Clone()
	more.Note(0, journal.Stand{Epoch: f.lease.Epoch, Last: 1034})
	f.j.Learn(more)
	refused := func(what string, err error) {
		f.Helper()
		f.fails(what, err, journal.ErrBehind)
		const says = "this database went back (partition 0: batch 2, 1,034 was seen): it is another primary or a " +
			"restored copy; stop all nodes, then pawl cluster accept"
		if err == nil || !strings.Contains(err.Error(), says) {
			f.Errorf("%s: %v does not say %q", what, err, says)
		}
	}
	refused("verify what lacks a batch", f.j.Verify(f.ctx))
	_, err := f.j.Acquire(f.ctx, 0, "test")
	refused("acquire what lacks a batch", err)
	stands, err := f.j.Stands(f.ctx)
	f.fails("stands", err, nil)
	f.equal("stand", stands.Partitions[0].Last, uint64(2))
	f.equal("lost", more.Lost(&stands), []string{"partition 0: batches 3 to 1,034"})

	first, err := f.j.Accept(f.ctx)
	f.fails("accept", err, nil)
	f.equal("generation", first.Number, uint64(1))
	f.j.Learn(more) // it is of the generation before
	f.fails("verify what was accepted", f.j.Verify(f.ctx), nil)
	f.equal("last batch", f.acquire(0).Last, uint64(2))

	f.j = f.Crash() // the other process has seen nothing, and is told
	f.j.Learn(journal.Seen{
		Database: seen.Database, Generation: journal.Generation{Number: 2, Mark: "m"}, Partitions: seen.Partitions,
	})
	f.fails("verify what was accepted once more elsewhere", f.j.Verify(f.ctx), journal.ErrBehind)
	_, err = f.j.Acquire(f.ctx, 0, "test")
	f.fails("acquire what was accepted once more elsewhere", err, journal.ErrBehind)
}
