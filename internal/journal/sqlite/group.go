package sqlite

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/journal"
)

// group lets the batches of several partitions join one transaction, so that they share one sync. While one commit is under
// way the batches that come are gathered; the first of them commits all there are by then.
type group struct {
	mu      sync.Mutex
	busy    bool // somebody commits
	waiting []*appending
}

// appending is a batch on its way into the file.
type appending struct {
	batch *journal.Batch
	of    *partition
	next  partition // what its partition is after it
	size  int
	err   error
	turn  chan bool // true: commit what waits, yourself among it; false: it is done
}

// Append implements journal.Journal. A context that is done before the append begins stops it; once begun it is carried
// through, since half an answer would leave the caller in doubt.
func (j *Journal) Append(ctx context.Context, b *journal.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if j.count == 1 {
		a := appending{batch: b}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.commit(&a)
		return a.err
	}
	a := &appending{batch: b, turn: make(chan bool, 1)}
	g := &j.group
	g.mu.Lock()
	g.waiting = append(g.waiting, a)
	lead := !g.busy
	g.busy = true
	g.mu.Unlock()
	if !lead && !<-a.turn {
		return a.err
	}
	j.lead(a)
	return a.err
}

// lead commits what waits, a among it, and hands over to the first of those that have come meanwhile.
func (j *Journal) lead(a *appending) {
	g := &j.group
	j.mu.Lock()
	g.mu.Lock()
	all := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	j.commit(all...)
	j.mu.Unlock()
	g.mu.Lock()
	if len(g.waiting) > 0 {
		g.waiting[0].turn <- true
	} else {
		g.busy = false
	}
	g.mu.Unlock()
	for _, other := range all {
		if other != a {
			other.turn <- false
		}
	}
}

// commit writes batches of different partitions in one transaction. Where that fails each of them is tried alone, so that
// what is wrong with one of them is that one's matter.
func (j *Journal) commit(all ...*appending) {
	var room [8]*appending
	good := room[:0]
	for _, a := range all {
		if a.err = j.admit(a); a.err == nil {
			good = append(good, a)
		}
	}
	if len(good) > 1 {
		err := j.w.transaction(func() (err error) {
			for _, a := range good {
				if a.size, err = j.w.write(a.batch, &a.next); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			j.committed(good)
			return
		}
	}
	for i, a := range good {
		if a.err = j.admit(a); a.err != nil { // what was tried together has left its traces in a.next
			continue
		}
		var err error
		if a.size, err = j.w.append(a.batch, &a.next); err != nil {
			a.err = j.failed("append", err)
			continue
		}
		j.committed(good[i : i+1])
	}
}

// committed takes note of batches that are in the file.
func (j *Journal) committed(all []*appending) {
	err := j.inPlace()
	for _, a := range all {
		if a.err = err; err == nil {
			*a.of = a.next
			j.check.wrote(a.size)
		}
	}
}

// admit says why a batch cannot be appended, if it cannot.
func (j *Journal) admit(a *appending) error {
	if err := j.writable(); err != nil {
		return err
	}
	b := a.batch
	p, err := j.owned(b.Partition, b.Epoch)
	if err != nil {
		return err
	}
	if b.Seq != p.last+1 {
		return fmt.Errorf("journal: append %s: batch %d of partition %d does not follow batch %d", j.path, b.Seq, b.Partition,
			p.last)
	}
	a.of, a.next = p, *p
	a.next.last = b.Seq
	if b.View != nil {
		a.next.through = max(p.through, min(b.View.Through, b.Seq))
	}
	return nil
}
