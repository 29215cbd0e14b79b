package sqlite

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/journal"
)

// group puts the batches of several partitions into one transaction, so that they share one sync. While one commit is
// written, new batches wait. Then the first of them commits all waiting ones.
type group struct {
	mu      sync.Mutex
	busy    bool // a commit is being written
	waiting []*appending
}

// appending is a batch that is being appended.
type appending struct {
	batch *journal.Batch
	of    *partition
	next  partition // the partition's state after the batch
	size  int
	err   error
	turn  chan bool // true: commit all waiting ones, with this batch; false: the batch is done
}

// Append implements journal.Journal. It stops if the context is done before the append begins. After that it goes on to
// the end, because otherwise the caller would not know whether the batch is stored.
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

// lead commits all batches that wait, with a among them. Then it makes the first of the new ones the next leader.
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

// commit writes batches of different partitions in one transaction. If that fails, it tries each of them alone, so that
// a bad batch does not harm the others.
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
		if a.err = j.admit(a); a.err != nil { // the failed transaction has changed a.next
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

// committed notes that batches are in the file.
func (j *Journal) committed(all []*appending) {
	err := j.inPlace()
	for _, a := range all {
		if a.err = err; err == nil {
			*a.of = a.next
			j.notes.Note(a.batch.Partition, journal.Stand{Epoch: a.next.epoch, Last: a.next.last})
			j.check.wrote(a.size)
		}
	}
}

// admit returns an error if a batch cannot be appended.
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
		return fmt.Errorf("journal: append %s: batch %d of partition %d does not follow batch %d",
			j.path, b.Seq, b.Partition,
			p.last)
	}
	a.of, a.next = p, *p
	a.next.last = b.Seq
	if b.View != nil {
		a.next.through = max(p.through, min(b.View.Through, b.Seq))
	}
	return nil
}
