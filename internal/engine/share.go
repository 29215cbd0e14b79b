package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// away returns the driver that stands for a partition which another process owns. It takes no requests.
func away(cfg Config, defs *definitions, partition int) *driver {
	cfg.Partition = partition
	e := &driver{
		cfg: cfg, defs: defs, requests: newRequestQueue(), stop: make(chan struct{}), done: make(chan struct{}),
	}
	e.gate = make(chan struct{}, 1)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.cancel()
	e.state.Store(&status{err: moved(partition), final: true})
	e.requests.close()
	close(e.done)
	return e
}

// Take takes a partition over, of an engine whose journal is shared. If the engine runs it already, Take does nothing.
// Errors: CodeHeld (another process owns it), CodeInvalid, CodeClosed, CodeStorage, CodeStalled.
func (e *Engine) Take(ctx context.Context, partition int) error {
	if err := e.checkShared(partition); err != nil {
		return err
	}
	e.moves[partition].Lock()
	defer e.moves[partition].Unlock()
	if e.runs(partition) {
		return nil
	}
	part := e.driverOf(partition)
	e.coming[partition].Store(part)
	defer e.coming[partition].Store(nil)
	if err := part.open(ctx); err != nil {
		// Callers that came meanwhile get this error.
		part.state.CompareAndSwap(nil, &status{err: moved(partition), final: true})
		return errors.Join(err, part.close())
	}
	e.opening.Lock()
	closed := e.closed
	if !closed {
		e.drivers[partition].Store(part)
		e.tell()
	}
	e.opening.Unlock()
	if closed {
		return errors.Join(e.Err(), part.close())
	}
	go func() {
		<-part.done
		e.lost(partition, part)
	}()
	return nil
}

// Give ends the work on a partition and gives it back: what has happened is saved, the view is completed, and the next
// owner can take it at once. Attempts of workers in this process are stopped; the next owner makes them again. Those of
// workers in other processes go on. If the engine does not run the partition, Give does nothing.
func (e *Engine) Give(partition int) error {
	if err := e.checkShared(partition); err != nil {
		return err
	}
	e.moves[partition].Lock()
	defer e.moves[partition].Unlock()
	part := e.at(partition)
	if !e.runs(partition) {
		return nil
	}
	part.given.Store(true)
	part.state.CompareAndSwap(nil, &status{err: moved(partition), final: true})
	err := part.close()
	e.lost(partition, part)
	return err
}

func (e *Engine) checkShared(partition int) error {
	if !e.cfg.Shared || partition < 0 || partition >= len(e.drivers) {
		return invalid("engine", "", "partition %d cannot be moved here", partition)
	}
	return nil
}

// Owned returns the partitions that this engine runs, in order.
func (e *Engine) Owned() []int {
	var out []int
	for _, part := range e.all() {
		out = append(out, part.cfg.Partition)
	}
	return out
}

// Changed returns a channel that is closed when this engine runs other partitions than now.
func (e *Engine) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// PartitionOf returns the partition of a run.
func (e *Engine) PartitionOf(run core.RunID) int {
	return int(core.PartitionKey(run)) % e.cfg.Journal.PartitionCount()
}

// runs reports whether the driver of a partition takes requests, or will again.
func (e *Engine) runs(partition int) bool {
	part := e.at(partition)
	s := part.state.Load()
	return s == nil || !s.final
}

// lost puts the stand-in into the place of a driver that has ended. If none of this process can use the journal any
// more, the engine ends.
func (e *Engine) lost(partition int, part *driver) {
	stand := away(e.cfg, e.defs, partition)
	if err := part.err(); journalLost(err) {
		e.state.CompareAndSwap(nil, &status{err: err, final: true})
		e.ended()
	}
	if e.drivers[partition].CompareAndSwap(part, stand) {
		e.tell()
	}
}

// tell wakes those who follow which partitions the engine runs.
func (e *Engine) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.changed)
	e.changed = make(chan struct{})
}

// feedOwned reads the feeds of the partitions that the engine runs, also of those that it takes later. For each
// partition whose feed was not made by beginFeed just before, it calls fn without entries when the feed is there: what
// happened before, in another process, may not have been read.
func (e *Engine) feedOwned(
	ctx context.Context, name string, fn func(partition int, seq uint64, entries []core.Entry) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	begun := e.begun[name]
	delete(e.begun, name)
	e.mu.Unlock()
	feed := func(part *driver) error {
		if !slices.Contains(begun, part) {
			if err := part.askFeed(ctx, CallBeginFeed, name); err != nil {
				return err
			}
			if err := fn(part.cfg.Partition, 0, nil); err != nil {
				return err
			}
		}
		return part.feed(ctx, name, fn)
	}
	type end struct {
		of  *driver
		err error
	}
	reading, ends := map[*driver]bool{}, make(chan end)
	var first error
	for first == nil || len(reading) > 0 {
		changed := e.Changed()
		if first == nil {
			for _, part := range e.all() {
				if !reading[part] {
					reading[part] = true
					go func() { ends <- end{part, feed(part)} }()
				}
			}
		}
		select {
		case <-changed:
		case r := <-ends:
			delete(reading, r.of)
			if s := r.of.state.Load(); first == nil && (s == nil || !s.final || journalLost(s.err)) {
				first = r.err
				cancel()
			}
		case <-e.done:
			if first == nil {
				first = e.Err()
				cancel()
			}
		case <-ctx.Done():
			if first == nil {
				first = &Error{Code: CodeCancelled, Op: "feed", Err: context.Cause(ctx)}
			}
		}
	}
	return first
}

// withinLease returns a context that ends with the lease, so that the loop notices that end also while it waits for the
// journal.
func (l *loop) withinLease() (context.Context, context.CancelFunc) {
	if left, ends := l.tenure.Left(time.Now()); ends {
		return context.WithTimeoutCause(l.e.ctx, left, ErrLeaseEnded)
	}
	return l.e.ctx, func() {}
}

// untilLeaseEnds shortens a sleep to the end of the lease.
func (l *loop) untilLeaseEnds(wait time.Duration) time.Duration {
	if left, ends := l.tenure.Left(time.Now()); ends {
		return min(wait, left)
	}
	return wait
}

// ShutShared ends the work on a partition that another process takes over, while this process goes on. It stops the
// attempts of workers in this process, and forgets what the process has counted of the partition.
func (p *Partition) ShutShared(err error) {
	p.revokeOwn()
	p.admissions.forget()
	p.generation = int(p.cfg.generations.Add(1))
	for _, b := range p.defs.bodies() {
		b.Reset(p.generation, p.owns)
	}
	p.Shut(err)
	p.leaveLoad()
}

// leaveLoad says that no places of this partition are to be counted any more, so that others need not wait for it.
func (p *Partition) leaveLoad() {
	if p.admissions.loading {
		p.admissions.loading = false
		p.tasks.matcher.FinishLoad(p.tasks.client)
	}
}

// storedEntries reads the entries of a run whose partition another process owns: from the view and from the journal.
func (e *driver) storedEntries(ctx context.Context, id core.RunID, after int) (part, error) {
	h, err := e.cfg.Journal.History(ctx, id)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return part{}, failure("read", id.String(), err)
	}
	all := h.Entries
	err = e.cfg.Journal.Tail(ctx, e.cfg.Partition, h.Applied, func(_ uint64, entries []core.Entry) error {
		for i := range entries {
			if entries[i].Run == id {
				all = append(all, entries[i])
			}
		}
		return nil
	})
	if err != nil {
		return part{}, failure("read", id.String(), err)
	}
	if len(all) == 0 {
		return part{}, notFound("read", id.String())
	}
	closed := false
	for i := range all {
		closed = all[i].Ended(i > 0 && closed)
	}
	return part{all[min(after, len(all)):], closed}, nil
}

// noPartition returns the error of a start on an engine that runs no partition.
func noPartition() error {
	return &Error{
		Code: CodeHeld, Op: "start", Err: fmt.Errorf("this node has no partition at present"),
		Hint: "nothing was saved; try again in a moment, or ask another node",
	}
}

// Runs reports whether this engine runs a partition.
func (e *Engine) Runs(partition int) bool {
	return e.cfg.Shared && partition >= 0 && partition < len(e.drivers) && e.runs(partition)
}

// ExpectAt says that messages for a partition may have come.
func (e *Engine) ExpectAt(partition int) {
	if partition >= 0 && partition < len(e.drivers) {
		e.hearing(partition).expect()
	}
}

// PartitionCount returns how many partitions the journal has.
func (e *Engine) PartitionCount() int { return e.cfg.Journal.PartitionCount() }
