package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/clock"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Open takes the partition over and reads the journal's tail, which is what the view does not have. Active runs that
// are not in the tail, and runs that come due, are read with the first window.
//
// After Failed, Open is called again. If Open fails, the partition stays empty, and Open may be called once more. A
// partition that was owned before is never taken back from a newer owner: then the error is CodeFenced, and it
// stays.
func (p *Partition) Open(ctx context.Context, now core.Time) error {
	p.admissions.startLoad()
	p.forget()
	p.ctx = ctx
	lease, err := p.base.acquire(ctx, p.pipeline.epoch)
	if err != nil {
		return failure("open", "", err)
	}
	p.pipeline.epoch, p.pipeline.term, p.pipeline.durable = lease.Epoch, lease.Term, lease.Last
	p.pipeline.begin(lease.Last + 1)
	p.messages.open(lease.Taken, now)
	p.feeds.load(lease, now)
	err = p.replay(ctx, lease)
	if err == nil {
		err = p.revokeAgain()
	}
	if err != nil {
		p.forget()
		return failure("open", "", err)
	}
	p.at(now)
	if p.residents.opened == 0 {
		p.residents.opened = p.now
	}
	p.children.families.opened = p.now
	if err := p.messages.receiveKept(ctx, now); err != nil {
		p.Failed(err) // attempts may have taken slots
		return failure("open", "", err)
	}
	p.children.loseNotBegun()
	if err := p.loadReported(); err != nil {
		p.Failed(err)
		return failure("open", "", err)
	}
	reports := p.pipeline.reports
	p.pipeline.reports = nil
	for _, rep := range reports {
		p.Report(rep.run, p.residents.reportedAgain(rep), p.now)
	}
	if err := p.readErr; err != nil {
		p.Failed(err)
		return failure("open", "", err)
	}
	p.messages.notifyAfterFailure()
	return nil
}

// Tenure returns the tenure of the partition, which was opened. The journal was asked for it at the instant sent.
func (p *Partition) Tenure(sent time.Time, now core.Time) clock.Tenure {
	return clock.NewTenure(p.pipeline.term, p.cfg.Shared, sent, now)
}

// Release gives the partition back. Afterwards only Open may be called.
func (p *Partition) Release(ctx context.Context) error {
	epoch := p.pipeline.epoch
	if epoch == 0 {
		return nil
	}
	p.pipeline.epoch = 0
	return p.cfg.Journal.Release(ctx, p.cfg.Partition, epoch)
}

// loadReported loads the runs that the kept reports are about. If one cannot be read now, it returns the error and the
// reports stay kept.
func (p *Partition) loadReported() error {
	for _, rep := range p.pipeline.reports {
		if _, err := p.get(rep.run); err != nil && !errors.Is(err, journal.ErrNotFound) && !permanent(err) {
			return err
		}
	}
	return nil
}

// reportedAgain returns a kept report as the run takes it now. If the run is stopping an attempt that ended before, the
// attempt has stopped. The worker may have reported that already, in a report that was not kept: a run that was set
// aside did not take it.
func (s *residents) reportedAgain(rep report) core.Input {
	end, ended := rep.in.(core.TaskEnded)
	r := s.runs[rep.run]
	if !ended || r == nil || r.aside != nil || int(end.Step) >= len(r.state.Steps) {
		return rep.in
	}
	if step := &r.state.Steps[end.Step]; !step.Stopping || step.Attempt != end.Attempt {
		return rep.in
	}
	return core.TaskStopped{Step: end.Step, Attempt: end.Attempt}
}

// revokeAgain stops attempts whose worker was not told to stop. Their end was in a batch whose append seemed to
// fail, but it is on disk after all. The runs are asked as they are on disk: what happens to them from now on is not
// durable yet. If one cannot be read now, it returns the error and the revokes stay kept.
func (p *Partition) revokeAgain() error {
	var later []effect
	for _, e := range p.pipeline.revokes {
		eff, ok := e.eff.(core.Revoke)
		if !ok {
			continue
		}
		r, err := p.residents.onDisk(e.run)
		if permanent(err) {
			later = append(later, e) // the run is set aside now, but perhaps not after the next Open
			continue
		}
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		if err != nil || int(eff.Step) >= len(r.state.Steps) {
			continue // the run or its step was not saved, so nothing has to be stopped
		}
		if s := &r.state.Steps[eff.Step]; s.Stopping && s.Attempt == eff.Attempt {
			p.carryOut(&e)
		}
	}
	p.pipeline.revokes = later
	return nil
}

// setTailRunAside sets a run of the tail aside. The journal keeps its entries, from the first batch that has one.
func (p *Partition) setTailRunAside(t *tailRun, first uint64, err error) {
	a := p.residents.setAside(t.id, err)
	if created, ok := t.entries[0].Records[0].(core.RunCreated); ok {
		a.missingRow = &journal.RunRow{
			ID: t.id, Partition: p.cfg.Partition, Workflow: created.Workflow, WorkflowID: created.WorkflowID,
			Key: created.Key, Definition: created.Definition, Phase: core.RunRunning, CreatedAt: t.entries[0].At,
			Wake: journal.WakeSetAside, Parent: created.Parent.Run, Message: a.Error(),
			Labels: created.Labels,
		}
	}
	p.pipeline.view.keepTailFrom(first)
}

// replay restores the runs of the journal's tail. It also moves the partition's time to the last instant in the
// tail, so that time does not run backwards.
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
			p.children.unborn.expect(&e)
			t.seqs = append(t.seqs, seq)
			p.at(e.At)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var restored []*run
	for _, t := range order {
		all := *t // restoreTail removes entries from t
		r, err := p.residents.restoreTail(t, byID)
		if permanent(err) {
			p.setTailRunAside(&all, all.seqs[0], err)
		} else if err != nil {
			return err
		}
		if r != nil {
			restored = append(restored, r)
		}
	}
	p.trackRestored(restored)
	return nil
}

// restoreTail restores a run from the view and the tail. It returns nil if the view has everything.
func (s *residents) restoreTail(t *tailRun, tail map[core.RunID]*tailRun) (*run, error) {
	h, err := s.history(t.id)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	for len(t.seqs) > 0 && t.seqs[0] <= h.Applied {
		t.entries, t.seqs = t.entries[1:], t.seqs[1:]
	}
	if len(t.entries) == 0 {
		return nil, nil // if the run is active, the first window loads it
	}
	entries := h.Entries
	if len(entries) == 0 {
		entries, t.entries = t.entries[:1:1], t.entries[1:]
	}
	r, err := s.restore(t.id, entries, tail)
	if err != nil {
		return nil, fmt.Errorf("the journal's tail: %w", err)
	}
	r.bytes = h.Size
	var encoded []byte
	if len(h.Entries) == 0 { // its first entry is in the tail
		encoded = core.AppendEntry(encoded[:0], &entries[0])
		r.addPending(t.seqs[0], encoded)
		t.seqs = t.seqs[1:]
	} else {
		r.rows.forget()
	}
	for i := range t.entries {
		if err := r.fold(&t.entries[i]); err != nil {
			return nil, err
		}
		encoded = core.AppendEntry(encoded[:0], &t.entries[i])
		r.addPending(t.seqs[i], encoded)
	}
	r.firstPending = r.pending.marks[0].seq
	s.addRestored(r)
	return r, nil
}

// trackRestored lists the restored runs. The view does not have everything of any of them. Those with attempts have
// to be recovered.
func (p *Partition) trackRestored(restored []*run) {
	// The list of runs behind is ordered by the first batch that the view does not have. For a run that is partly in
	// the view, that is not its first batch in the tail.
	slices.SortStableFunc(restored, func(a, b *run) int { return cmp.Compare(a.firstPending, b.firstPending) })
	for _, r := range restored {
		first := r.firstPending
		r.firstPending = 0
		p.pipeline.view.markBehind(r, first, len(r.pending.bytes), p.now)
		p.pipeline.view.noteSettled(r, p.now)
		if r.unrecovered {
			p.residents.restored.push(r)
		}
	}
}

// Failed notes that an append failed with err. Either nothing of the batch is on disk, or the journal could not report
// it, and all of it may be there. All later batches are dropped too.
//
// The partition forgets its memory, answers the callers that wait for a batch, and keeps the workers' reports. Open
// makes it ready again.
func (p *Partition) Failed(err error) {
	p.admissions.startLoad()
	var kept []report
	p.tasks.alive = make(map[core.Token]bool)
	for _, b := range p.pipeline.batches() {
		kept = append(kept, b.reports...)
		p.pipeline.revokes = append(p.pipeline.revokes, b.after...) // revokeAgain skips other effects
		for i := range b.posted {
			if to := b.posted[i].To; to != p.cfg.Partition && !slices.Contains(p.pipeline.unnotified, to) {
				p.pipeline.unnotified = append(p.pipeline.unnotified, to)
			}
		}
		for _, t := range b.freed {
			p.admissions.limiter.Leave(t, p.now)
		}
		for _, c := range b.calls {
			reply := c.Answered()
			reply.Err, reply.batchFailed = failure(c.op(), "", err), true
			c.answer()
		}
	}
	p.pipeline.reports = append(kept, p.pipeline.reports...)
	for _, rep := range p.pipeline.reports { // also those that an earlier failure has left
		if tok, over := rep.token(); over {
			p.tasks.alive[tok] = true
		}
	}
	p.generation = int(p.cfg.generations.Add(1))
	for _, b := range p.defs.bodies() {
		b.Reset(p.generation, p.owns)
	}
	p.tasks.dropUndispatched()
	p.starts.forget(err)
	p.residents.answerLeaving(err, true)
	p.forget()
	p.audience.askAgain(nil)
}

// Shut answers everyone who waits with an error. The partition cannot be used afterwards.
func (p *Partition) Shut(err error) {
	p.admissions.leaveWaiting()
	clear(p.admissions.tickets)
	for _, b := range p.pipeline.batches() {
		for _, c := range b.calls {
			c.Answered().Err = err
			c.answer()
		}
	}
	p.residents.answerLeaving(err, false)
	p.starts.forget(err)
	p.forget()
	p.tasks.close()
	p.audience.askAgain(err)
}

// ShutShared ends the work on a partition that another process takes over, while this process goes on. It stops the
// attempts of workers in this process, and forgets what the process has counted of the partition.
func (p *Partition) ShutShared(err error) {
	p.tasks.revokeOwn()
	p.admissions.forget()
	p.generation = int(p.cfg.generations.Add(1))
	for _, b := range p.defs.bodies() {
		b.Reset(p.generation, p.owns)
	}
	p.Shut(err)
	p.admissions.leaveLoad()
}
