package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Open takes the partition over and reads what the view lacks: the tail of the journal. Runs that were active, and those
// that come due, are read by the first window. After Failed, Open is called again; where it fails the partition stays
// empty and Open may be called once more.
func (p *Partition) Open(ctx context.Context, now core.Time) error {
	p.forget()
	p.ctx = ctx
	lease, err := p.cfg.Journal.Acquire(ctx, p.cfg.Partition, p.cfg.Owner)
	if err != nil {
		return failure("open", "", err)
	}
	p.epoch, p.durable = lease.Epoch, lease.Last
	p.spare = nil
	p.beginBatch(lease.Last + 1)
	if err := p.replay(ctx, lease); err != nil {
		p.forget()
		return failure("open", "", err)
	}
	p.at(now)
	if err := p.reload(); err != nil {
		p.forget()
		return failure("open", "", err)
	}
	kept := p.kept
	p.kept = nil
	for _, rep := range kept {
		p.Report(rep.run, rep.in, p.now)
	}
	p.revokeAgain()
	if err := p.unread; err != nil {
		p.Failed(err)
		return failure("open", "", err)
	}
	return nil
}

// reload reads the runs that workers' reports and void revokes are about. Where one cannot be read now, both are kept.
func (p *Partition) reload() error {
	about := make([]core.RunID, 0, len(p.kept)+len(p.revokes))
	for _, rep := range p.kept {
		about = append(about, rep.run)
	}
	for _, e := range p.revokes {
		about = append(about, e.run)
	}
	for _, id := range about {
		if p.broken[id] != nil {
			continue // it stands still anyway
		}
		if _, err := p.get(id); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
	}
	return nil
}

// revokeAgain stops attempts whose end is on disk after all, though the append that said so seemed to fail: their workers
// were not told.
func (p *Partition) revokeAgain() {
	for _, e := range p.revokes {
		eff, ok := e.eff.(core.Revoke)
		if !ok {
			continue
		}
		r, err := p.get(e.run)
		if err != nil || int(eff.Step) >= len(r.state.Steps) {
			continue // what it ended is as void as the end
		}
		if s := &r.state.Steps[eff.Step]; s.Stopping && s.Attempt == eff.Attempt {
			p.carryOut(&e)
		}
	}
	p.revokes = nil
	p.settle()
}

// setAside leaves a run as it is in the journal, since nobody can say what it would do next. The others go on without it;
// the journal is kept from its first batch on, until a start that knows its definition.
func (p *Partition) setAside(id core.RunID, first uint64, err error) {
	p.cfg.Log.Error("a run stands still", "run", id.String(), "error", err)
	p.broken[id] = err
	if p.hold == 0 || first < p.hold {
		p.hold = first
	}
}

// tailRun is what the tail holds of one run.
type tailRun struct {
	id      core.RunID
	created *core.RunCreated // nil: it was created before the tail
	entries []core.Entry
	seqs    []uint64
}

// replay restores the runs of the journal's tail. Time goes on from the tail's last instant at least, so that what
// happens next is not before what happened last.
func (p *Partition) replay(ctx context.Context, lease journal.Lease) error {
	var order []*tailRun
	byID := make(map[core.RunID]*tailRun)
	err := p.cfg.Journal.Tail(ctx, p.cfg.Partition, lease.Through, func(seq uint64, entries []core.Entry) error {
		for _, e := range entries {
			t := byID[e.Run]
			if t == nil {
				t = &tailRun{id: e.Run, created: createdBy([]core.Entry{e})}
				byID[e.Run] = t
				order = append(order, t)
			}
			t.entries = append(t.entries, e)
			t.seqs = append(t.seqs, seq)
			p.at(e.At)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var dirty []*run
	for _, t := range order {
		first := t.seqs[0]
		r, err := p.restoreTail(ctx, t, byID)
		if broken := (*unusable)(nil); errors.As(err, &broken) {
			p.setAside(t.id, first, err)
		} else if err != nil {
			return err
		}
		if r != nil {
			dirty = append(dirty, r)
		}
	}
	p.mourn(dirty)
	return nil
}

// restoreTail restores a run from what the view holds and what the tail adds; nil: the view holds it all.
func (p *Partition) restoreTail(ctx context.Context, t *tailRun, tail map[core.RunID]*tailRun) (*run, error) {
	h, err := p.cfg.Journal.History(ctx, t.id)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	for len(t.seqs) > 0 && t.seqs[0] <= h.Applied {
		t.entries, t.seqs = t.entries[1:], t.seqs[1:]
	}
	if len(t.entries) == 0 {
		return nil, nil // idle or closed: should it be active, the first window finds it
	}
	entries := h.Entries
	if len(entries) == 0 {
		entries, t.entries = t.entries[:1:1], t.entries[1:]
	}
	r, err := p.restore(t.id, entries, tail)
	if err != nil {
		return nil, fmt.Errorf("the journal's tail: %w", err)
	}
	var encoded []byte
	if len(h.Entries) == 0 { // its first entry is the tail's
		encoded = core.AppendEntry(encoded[:0], &entries[0])
		r.keep(t.seqs[0], encoded)
		t.seqs = t.seqs[1:]
	} else {
		r.rows.forget()
	}
	for i := range t.entries {
		r.state.Fold(t.entries[i])
		r.rows.note(r.state, &t.entries[i])
		encoded = core.AppendEntry(encoded[:0], &t.entries[i])
		r.keep(t.seqs[i], encoded)
	}
	r.first = r.pending.marks[0].seq
	p.enter(r)
	return r, nil
}

// mourn lists the runs of the tail as behind, in the order of their batches, and those with attempts as lost.
func (p *Partition) mourn(dirty []*run) {
	// They stand in the order of their first entry in the tail; of those partly applied a later one counts.
	sortByFirst(dirty)
	for _, r := range dirty {
		r.since, r.offset = p.now, p.total
		p.total += int64(len(r.pending.bytes))
		p.behind.push(r)
		p.ripen(r)
		if r.lost {
			p.lost.push(r)
		}
	}
}

// Failed says that an append failed: with err nothing of it, or, where the journal could not tell, perhaps all of it is
// on disk. Every batch after it is void. The partition forgets what it holds in memory, answers who waits for a batch,
// and keeps the workers' reports. Open makes it ready again.
func (p *Partition) Failed(err error) {
	batches := append(p.flight.items[p.flight.head:len(p.flight.items):len(p.flight.items)], p.open)
	var kept []report
	p.alive = make(map[core.Token]bool)
	for _, b := range batches {
		for _, rep := range b.reports {
			if tok, over := rep.token(); over {
				p.alive[tok] = true
			}
		}
		kept = append(kept, b.reports...)
		p.revokes = append(p.revokes, b.after...) // the dispatches among them are void
		for _, c := range b.calls {
			c.Err, c.void = failure(c.op(), "", err), true
			c.answer()
		}
	}
	p.kept = append(kept, p.kept...)
	p.generation++
	for _, b := range p.defs.bodies() {
		b.Reset(p.generation)
	}
	for _, q := range p.queues {
		q.busy = 0
	}
	for tok, h := range p.held {
		if !h.given {
			delete(p.held, tok)
			continue
		}
		h.queue.busy++
		p.alive[tok] = true
	}
	p.forget()
	p.open = nil
	p.again(nil)
}

// again has everyone who waits for a run or watches one ask again, or fails them: what was on its way may be on disk, and
// nobody was told of it.
func (p *Partition) again(err error) {
	for _, ws := range p.waiters {
		for _, w := range ws {
			w.tell(waited{again: err == nil, err: err})
		}
	}
	clear(p.waiters)
	for _, ws := range p.watchers {
		for _, w := range ws {
			if err != nil {
				w.tell(watched{err: err})
			}
			w.reread()
		}
	}
	if err != nil {
		clear(p.watchers)
	}
}

// Shut answers everyone who waits with an error. The partition is of no more use.
func (p *Partition) Shut(err error) {
	if p.open != nil {
		for _, b := range append(p.flight.items[p.flight.head:len(p.flight.items):len(p.flight.items)], p.open) {
			for _, c := range b.calls {
				c.Err = err
				c.answer()
			}
		}
	}
	p.forget()
	p.open = nil
	p.again(err)
}

func sortByFirst(runs []*run) {
	slices.SortStableFunc(runs, func(a, b *run) int { return cmp.Compare(a.first, b.first) })
}
