package sim

import (
	"bytes"
	"reflect"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// checkView holds the rows that ride in a batch against the fold of what is durable with it.
func (b *book) checkView(batch *journal.Batch) {
	v := batch.View
	for i := range v.Runs {
		row := &v.Runs[i]
		a := b.accounts[row.ID]
		if a == nil {
			b.u.violate(Replay, row.ID, "the view has a run that is not in the journal")
			continue
		}
		if row.Applied != batch.Seq {
			b.u.violate(Replay, row.ID, "the row says batch %d and rides in batch %d", row.Applied, batch.Seq)
		}
		b.checkRow(a, row)
	}
	for i := range v.Steps {
		if a := b.accounts[v.Steps[i].Run]; a != nil {
			b.checkStep(a, &v.Steps[i])
		}
	}
	for i := range v.History {
		b.checkHistory(&v.History[i])
	}
	for _, a := range b.order {
		if b.u.seatOf(a.id).partition != batch.Partition {
			continue
		}
		if a.viewed < len(a.entries) && a.seqs[a.viewed] <= v.Through {
			b.u.violate(Replay, a.id, "the view claims to hold all up to batch %d and lacks batch %d of the run", v.Through, a.seqs[a.viewed])
		}
	}
}

func (b *book) checkRow(a *account, row *journal.RunRow) {
	r := a.shadow
	due := r.Wake()
	if r.Phase.Closed() {
		due = 0
	} else if r.Active() {
		due = journal.WakeActive
	}
	if !r.Phase.Closed() && row.Wake == journal.WakeSetAside && b.writer.p.SetAside(a.id) != nil {
		due = row.Wake
	}
	want := *row
	want.Workflow, want.WorkflowID, want.Key, want.Definition = r.Workflow, r.WorkflowID, r.Key, r.Definition
	want.Phase, want.CreatedAt, want.EndedAt, want.Wake, want.Parent = r.Phase, r.CreatedAt, r.EndedAt, due, r.Parent.Run
	if want != *row {
		b.u.violate(Replay, a.id, "the view's row %+v differs from the journal's fold, %+v", *row, want)
	}
}

func (b *book) checkStep(a *account, row *journal.StepRow) {
	if int(row.Step) >= len(a.shadow.Steps) {
		b.u.violate(Replay, a.id, "the view has a step %d that is not in the journal", row.Step)
		return
	}
	s := &a.shadow.Steps[row.Step]
	want := *row
	want.Name, want.Kind, want.Phase, want.Reason, want.Attempt = s.Key(), s.Spec.Kind, s.Phase, s.Reason, s.Attempt
	want.ScheduledAt, want.EndedAt, want.NextAt = s.ScheduledAt, s.EndedAt, s.NextAt
	if want != *row {
		b.u.violate(Replay, a.id, "the view's step %+v differs from the journal's fold, %+v", *row, want)
	}
}

func (b *book) checkHistory(h *journal.HistoryRow) {
	a := b.accounts[h.Run]
	if a == nil {
		return
	}
	var want []byte
	for _, e := range a.encoded[a.viewed:] {
		want = append(want, e...)
	}
	if !bytes.Equal(want, h.Entries) {
		b.u.violate(Replay, a.id, "the view's history differs from the journal's entries from the %dth on", a.viewed+1)
	}
	if len(want) > 0 && a.seqs[a.viewed] != h.Seq {
		b.u.violate(Replay, a.id, "a piece of history begins with batch %d, not %d", h.Seq, a.seqs[a.viewed])
	}
	a.viewed = len(a.entries)
}

// finale brings the view up to date and holds all of it against the journal.
func (b *book) finale() {
	for _, s := range b.u.seats {
		b.flush(s.node)
	}
	for _, a := range b.order {
		b.finalRun(a)
	}
	b.finalPage()
}

// flush writes the rest of a partition's view.
func (b *book) flush(n *node) {
	n.p.Flush()
	for range 1000 {
		batch := n.p.Cut(b.u.clock())
		if batch == nil {
			break
		}
		b.writer = n
		if err := n.store.Append(b.u.ctx, batch); err != nil {
			b.u.violate(Replay, core.RunID{}, "the view cannot be written: %v", err)
			return
		}
		n.p.Committed(b.u.clock())
	}
	if s := n.p.Stats(); s.Behind != 0 || s.Queued != 0 || s.Live != 0 {
		b.u.violate(NoHang, core.RunID{}, "all runs have ended, and the engine still holds %+v", s)
	}
	b.compare(n, true, true)
}

func (b *book) finalRun(a *account) {
	h, err := b.u.disk.History(b.u.ctx, a.id)
	if err != nil || len(h.Entries) != len(a.entries) {
		b.u.violate(Replay, a.id, "the view has %d entries of the run's %d: %v", len(h.Entries), len(a.entries), err)
		return
	}
	if diff := differ(core.Restore(a.id, a.shadow.Attached(), h.Entries), a.shadow); diff != "" {
		b.u.violate(Replay, a.id, "the view's history folds to another state: %s", diff)
	}
	rows := b.u.disk.Steps(a.id)
	if len(rows) != len(a.shadow.Steps) {
		b.u.violate(Replay, a.id, "the view has %d of %d steps", len(rows), len(a.shadow.Steps))
	}
	for i := range rows {
		b.checkStep(a, &rows[i])
	}
	attempts := b.u.disk.Attempts(a.id)
	n := 0
	for i := range a.model.steps {
		for k, want := range a.model.steps[i].attempts {
			if n >= len(attempts) {
				break
			}
			row := attempts[n]
			got := attemptModel{row.ReadyAt, row.Started, row.Ended}
			if row.Step != core.StepID(i) || row.Attempt != k+1 || !reflect.DeepEqual(got, want) {
				b.u.violate(Replay, a.id, "the view's attempt %+v is not attempt %d of step %d: %+v", row, k+1, i, want)
			}
			n++
		}
	}
	if n != len(attempts) {
		b.u.violate(Replay, a.id, "the view has %d attempts more than the journal", len(attempts)-n)
	}
}

// finalPage lists all runs, as callers do.
func (b *book) finalPage() {
	page, err := b.u.disk.List(b.u.ctx, journal.Query{Limit: len(b.order) + 1})
	if err != nil || len(page.Runs) != len(b.order) {
		b.u.violate(Replay, core.RunID{}, "the list has %d of %d runs: %v", len(page.Runs), len(b.order), err)
	}
	for _, s := range b.u.seats {
		call := &engine.Call{Op: engine.CallList, Query: journal.Query{Limit: len(b.order)}}
		s.node.p.Handle(call, b.u.clock())
		if len(call.Rows) != 0 {
			b.u.violate(Replay, core.RunID{}, "partition %d still masks %d rows of a view that is up to date", s.partition, len(call.Rows))
		}
	}
}
