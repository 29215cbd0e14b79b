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

// away returns the engine that stands for a partition which another process owns. It takes no requests.
func away(cfg Config, defs *definitions, partition int) *Engine {
	cfg.Partition = partition
	e := &Engine{
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
	p := e.parts
	p.moves[partition].Lock()
	defer p.moves[partition].Unlock()
	if p.runs(partition) {
		return nil
	}
	part := p.own(e, partition)
	p.coming[partition].Store(part)
	defer p.coming[partition].Store(nil)
	if err := part.Open(ctx); err != nil {
		// Callers that came meanwhile get this error.
		part.state.CompareAndSwap(nil, &status{err: moved(partition), final: true})
		return errors.Join(err, part.Close())
	}
	e.opening.Lock()
	closed := p.closed
	if !closed {
		p.engines[partition].Store(part)
		p.tell()
	}
	e.opening.Unlock()
	if closed {
		return errors.Join(e.Err(), part.Close())
	}
	go func() {
		<-part.Done()
		p.lost(e, partition, part)
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
	p := e.parts
	p.moves[partition].Lock()
	defer p.moves[partition].Unlock()
	part := p.at(partition)
	if !p.runs(partition) {
		return nil
	}
	part.given.Store(true)
	part.state.CompareAndSwap(nil, &status{err: moved(partition), final: true})
	err := part.Close()
	p.lost(e, partition, part)
	return err
}

func (e *Engine) checkShared(partition int) error {
	if e.parts == nil || !e.cfg.Shared || partition < 0 || partition >= len(e.parts.engines) {
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
func (e *Engine) Changed() <-chan struct{} { return e.parts.nextChange() }

// PartitionOf returns the partition of a run.
func (e *Engine) PartitionOf(run core.RunID) int {
	return int(core.PartitionKey(run)) % e.cfg.Journal.PartitionCount()
}

// runs reports whether the engine of a partition takes requests, or will again.
func (p *parts) runs(partition int) bool {
	part := p.at(partition)
	s := part.state.Load()
	return s == nil || !s.final
}

// lost puts the stand-in into the place of an engine that has ended. If no engine of this process can use the journal
// any more, the engine in front ends.
func (p *parts) lost(front *Engine, partition int, part *Engine) {
	stand := away(front.cfg, front.defs, partition)
	if err := part.Err(); journalLost(err) {
		front.state.CompareAndSwap(nil, &status{err: err, final: true})
		p.end.Do(func() { close(front.done) })
	}
	if p.engines[partition].CompareAndSwap(part, stand) {
		p.tell()
	}
}

// tell wakes those who follow which partitions the engine runs.
func (p *parts) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// nextChange returns a channel that is closed when the engine runs other partitions than now.
func (p *parts) nextChange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// feedOwned reads the feeds of the partitions that the engine runs, also of those that it takes later. For each
// partition whose feed was not made by beginFeed just before, it calls fn without entries when the feed is there: what
// happened before, in another process, may not have been read.
func (p *parts) feedOwned(
	ctx context.Context, front *Engine, name string, fn func(seq uint64, entries []core.Entry) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	begun := p.begun[name]
	delete(p.begun, name)
	p.mu.Unlock()
	feed := func(part *Engine) error {
		if !slices.Contains(begun, part) {
			if err := part.BeginFeed(ctx, name); err != nil {
				return err
			}
			if err := fn(0, nil); err != nil {
				return err
			}
		}
		return part.Feed(ctx, name, fn)
	}
	type end struct {
		of  *Engine
		err error
	}
	reading, ends := map[*Engine]bool{}, make(chan end)
	var first error
	for first == nil || len(reading) > 0 {
		changed := p.nextChange()
		if first == nil {
			for _, part := range front.all() {
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
		case <-front.done:
			if first == nil {
				first = front.Err()
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
func (e *Engine) storedEntries(ctx context.Context, id core.RunID, after int) (part, error) {
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
	return e.parts != nil && partition >= 0 && partition < len(e.parts.engines) && e.parts.runs(partition)
}

// ExpectAt says that messages for a partition may have come.
func (e *Engine) ExpectAt(partition int) {
	if e.parts != nil && partition >= 0 && partition < len(e.parts.engines) {
		e.parts.within(partition).Expect()
	}
}

// PartitionCount returns how many partitions the journal has.
func (e *Engine) PartitionCount() int { return e.cfg.Journal.PartitionCount() }
