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
// empty and Open may be called once more. A partition that was owned already is never taken back from a newer owner: then
// the error is CodeFenced, for good.
func (p *Partition) Open(ctx context.Context, now core.Time) error {
	p.forget()
	p.ctx = ctx
	lease, err := p.own(ctx)
	if err != nil {
		return failure("open", "", err)
	}
	p.pipeline.epoch, p.pipeline.term, p.pipeline.durable = lease.Epoch, lease.Term, lease.Last
	p.pipeline.begin(lease.Last + 1)
	p.mail.open(lease.Taken, now)
	p.feeds.opened(lease, now)
	if err := p.replay(ctx, lease); err != nil {
		p.forget()
		return failure("open", "", err)
	}
	p.at(now)
	if err := p.reload(); err != nil {
		p.forget()
		return failure("open", "", err)
	}
	kept := p.pipeline.reports
	p.pipeline.reports = nil
	for _, rep := range kept {
		p.Report(rep.run, rep.in, p.now)
	}
	p.revokeAgain()
	if err := p.unread; err != nil {
		p.Failed(err)
		return failure("open", "", err)
	}
	p.tellAgain()
	return nil
}

// own acquires the partition, or goes on as its owner.
func (p *Partition) own(ctx context.Context) (journal.Lease, error) {
	if epoch := p.pipeline.epoch; epoch != 0 {
		return p.cfg.Journal.Renew(ctx, p.cfg.Partition, epoch)
	}
	return p.cfg.Journal.Acquire(ctx, p.cfg.Partition, p.cfg.Owner)
}

// Release gives the partition back. It is of no more use, unless Open takes it again.
func (p *Partition) Release(ctx context.Context) error {
	epoch := p.pipeline.epoch
	if epoch == 0 {
		return nil
	}
	p.pipeline.epoch = 0
	return p.cfg.Journal.Release(ctx, p.cfg.Partition, epoch)
}

// reload reads the runs that workers' reports and void revokes are about. Where one cannot be read now, both are kept.
func (p *Partition) reload() error {
	about := make([]core.RunID, 0, len(p.pipeline.reports)+len(p.pipeline.revokes))
	for _, rep := range p.pipeline.reports {
		about = append(about, rep.run)
	}
	for _, e := range p.pipeline.revokes {
		about = append(about, e.run)
	}
	for _, id := range about {
		if _, err := p.get(id); err != nil && !errors.Is(err, journal.ErrNotFound) && !permanent(err) {
			return err
		}
	}
	return nil
}

// revokeAgain stops attempts whose end is on disk after all, though the append that said so seemed to fail: their workers
// were not told.
func (p *Partition) revokeAgain() {
	var later []effect
	for _, e := range p.pipeline.revokes {
		eff, ok := e.eff.(core.Revoke)
		if !ok {
			continue
		}
		r, err := p.get(e.run)
		if permanent(err) {
			later = append(later, e) // it is set aside, perhaps not by the next Open
			continue
		}
		if err != nil || int(eff.Step) >= len(r.state.Steps) {
			continue // what it ended is as void as the end
		}
		if s := &r.state.Steps[eff.Step]; s.Stopping && s.Attempt == eff.Attempt {
			p.carryOut(&e)
		}
	}
	p.pipeline.revokes = later
	p.settle()
}

// leaveInTail sets a run of the tail aside, as it is in the journal, which is kept from its first batch on.
func (p *Partition) leaveInTail(t *tailRun, first uint64, err error) {
	a := p.setAside(t.id, err)
	if created, ok := t.entries[0].Records[0].(core.RunCreated); ok {
		a.unseen = &journal.RunRow{
			ID: t.id, Partition: p.cfg.Partition, Workflow: created.Workflow, WorkflowID: created.WorkflowID, Key: created.Key,
			Definition: created.Definition, Phase: core.RunRunning, CreatedAt: t.entries[0].At, Wake: journal.WakeSetAside,
			Parent: created.Parent.Run, Message: a.Error(),
		}
	}
	p.pipeline.view.holdFrom(first)
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
		all := *t
		r, err := p.restoreTail(ctx, t, byID)
		if permanent(err) {
			p.leaveInTail(&all, all.seqs[0], err)
		} else if err != nil {
			return err
		}
		if r != nil {
			dirty = append(dirty, r)
		}
	}
	p.trackRestored(dirty)
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
		if err := r.fold(&t.entries[i]); err != nil {
			return nil, err
		}
		encoded = core.AppendEntry(encoded[:0], &t.entries[i])
		r.keep(t.seqs[i], encoded)
	}
	r.first = r.pending.marks[0].seq
	p.residents.enter(r)
	return r, nil
}

// trackRestored lists the runs of the tail: the view lacks something of all, and those with attempts have to be recovered.
func (p *Partition) trackRestored(dirty []*run) {
	// They stand in the order of their first entry in the tail; of those partly applied a later one counts.
	sortByFirst(dirty)
	for _, r := range dirty {
		first := r.first
		r.first = 0
		p.pipeline.view.lacks(r, first, len(r.pending.bytes), p.now)
		p.pipeline.view.noteSettled(r, p.now)
		if r.lost {
			p.residents.restored.push(r)
		}
	}
}

// Failed says that an append failed: with err nothing of it, or, where the journal could not tell, perhaps all of it is
// on disk. Every batch after it is void. The partition forgets what it holds in memory, answers who waits for a batch,
// and keeps the workers' reports. Open makes it ready again.
func (p *Partition) Failed(err error) {
	var kept []report
	p.tasks.alive = make(map[core.Token]bool)
	for _, b := range p.pipeline.batches() {
		for _, rep := range b.reports {
			if tok, over := rep.token(); over {
				p.tasks.alive[tok] = true
			}
		}
		kept = append(kept, b.reports...)
		p.pipeline.revokes = append(p.pipeline.revokes, b.after...) // the dispatches among them are void
		for i := range b.posted {
			if to := b.posted[i].To; !slices.Contains(p.pipeline.untold, to) {
				p.pipeline.untold = append(p.pipeline.untold, to)
			}
		}
		for _, c := range b.calls {
			c.Err, c.void = failure(c.op(), "", err), true
			c.answer()
		}
	}
	p.pipeline.reports = append(kept, p.pipeline.reports...)
	p.generation = int(p.cfg.generations.Add(1))
	for _, b := range p.defs.bodies() {
		b.Reset(p.generation, p.owns)
	}
	p.tasks.dropUndispatched()
	p.forget()
	p.audience.again(nil)
}

// Shut answers everyone who waits with an error. The partition is of no more use.
func (p *Partition) Shut(err error) {
	for _, b := range p.pipeline.batches() {
		for _, c := range b.calls {
			c.Err = err
			c.answer()
		}
	}
	p.forget()
	p.tasks.close()
	p.audience.again(err)
}

func sortByFirst(runs []*run) {
	slices.SortStableFunc(runs, func(a, b *run) int { return cmp.Compare(a.first, b.first) })
}
