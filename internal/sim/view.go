package sim

import (
	"bytes"
	"reflect"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

// checkView compares the rows of the view in a batch with the state that follows from the journal up to that batch.
func (ch *checker) checkView(batch *journal.Batch) {
	v := batch.View
	for i := range v.Runs {
		row := &v.Runs[i]
		a := ch.accounts[row.ID]
		if a == nil {
			ch.u.violate(Replay, row.ID, "the view has a run that is not in the journal")
			continue
		}
		if row.Applied != batch.Seq {
			ch.u.violate(Replay, row.ID, "the row says batch %d, but it is in batch %d", row.Applied, batch.Seq)
		}
		ch.checkRow(a, row)
	}
	for i := range v.Steps {
		if a := ch.accounts[v.Steps[i].Run]; a != nil {
			ch.checkStep(a, &v.Steps[i])
		}
	}
	for i := range v.History {
		ch.checkHistory(&v.History[i])
	}
	for _, a := range ch.order {
		if ch.u.partitionOf(a.id).number != batch.Partition {
			continue
		}
		if a.inView < len(a.entries) && a.seqs[a.inView] <= v.Through {
			ch.u.violate(Replay, a.id,
				"the view says it has everything up to batch %d, but it does not have the run's batch %d",
				v.Through, a.seqs[a.inView])
		}
	}
}

func (ch *checker) checkRow(a *account, row *journal.RunRow) {
	r := a.state
	due := r.Wake()
	if r.Phase.Closed() {
		due = 0
	} else if r.Active() || a.model.inQueue() || a.model.q.place {
		due = journal.WakeActive
	}
	if !r.Phase.Closed() && row.Wake == journal.WakeSetAside && ch.appending.p.SetAside(a.id) != nil {
		due = row.Wake
	}
	want := *row
	want.Workflow, want.WorkflowID, want.Key, want.Definition = r.Workflow, r.WorkflowID, r.Key, r.Definition
	want.Phase, want.CreatedAt, want.EndedAt = r.Phase, r.CreatedAt, r.EndedAt
	want.Wake, want.Parent, want.Labels = due, r.Parent.Run, r.Labels
	if want != *row {
		ch.u.violate(Replay, a.id, "the view's row is %+v, the journal says %+v", *row, want)
	}
}

func (ch *checker) checkStep(a *account, row *journal.StepRow) {
	if int(row.Step) >= len(a.state.Steps) {
		ch.u.violate(Replay, a.id, "the view has step %d, which is not in the journal", row.Step)
		return
	}
	s := &a.state.Steps[row.Step]
	want := *row
	want.Name, want.Kind, want.Phase, want.Reason, want.Attempt = s.Key(), s.Spec.Kind, s.Phase, s.Reason, s.Attempt
	want.ScheduledAt, want.EndedAt, want.NextAt = s.ScheduledAt, s.EndedAt, s.NextAt
	if want != *row {
		ch.u.violate(Replay, a.id, "the view's step is %+v, the journal says %+v", *row, want)
	}
}

func (ch *checker) checkHistory(h *journal.HistoryRow) {
	a := ch.accounts[h.Run]
	if a == nil {
		return
	}
	var want []byte
	for _, e := range a.encoded[a.inView:] {
		want = append(want, e...)
	}
	if !bytes.Equal(want, h.Entries) {
		ch.u.violate(Replay, a.id, "history and journal differ from entry %d on", a.inView+1)
	}
	if len(want) > 0 && a.seqs[a.inView] != h.Seq {
		ch.u.violate(Replay, a.id, "a piece of history begins with batch %d, not %d", h.Seq, a.seqs[a.inView])
	}
	a.inView = len(a.entries)
}

// finalCheck brings the view up to date and compares the whole view with the journal.
func (ch *checker) finalCheck() {
	for _, s := range ch.u.partitions {
		ch.flush(s.node)
	}
	for _, a := range ch.order {
		ch.finalRun(a)
	}
	ch.finalPage()
}

// flush writes the rest of a partition's view.
func (ch *checker) flush(n *node) {
	n.p.Flush()
	for range 1000 {
		batch := n.p.Cut(ch.u.clock())
		if batch == nil {
			break
		}
		ch.appending = n
		if err := n.store.Append(ch.u.ctx, batch); err != nil {
			ch.u.violate(Replay, core.RunID{}, "the view cannot be written: %v", err)
			return
		}
		n.p.Committed(ch.u.clock())
	}
	if s := n.p.Stats(); s.Behind != 0 || s.Queued != 0 || s.Live != 0 {
		ch.u.violate(NoHang, core.RunID{}, "all runs have ended, and the engine still has %+v", s)
	}
	ch.compare(n, true, true)
}

func (ch *checker) finalRun(a *account) {
	h, err := ch.u.disk.History(ch.u.ctx, a.id)
	if err != nil || len(h.Entries) != len(a.entries) {
		ch.u.violate(Replay, a.id, "the view has %d of the run's %d entries: %v", len(h.Entries), len(a.entries), err)
		return
	}
	if diff := differ(core.Restore(a.id, a.state.Attached(), h.Entries), a.state); diff != "" {
		ch.u.violate(Replay, a.id, "the view's history gives another state: %s", diff)
	}
	rows := ch.u.disk.Steps(a.id)
	if len(rows) != len(a.state.Steps) {
		ch.u.violate(Replay, a.id, "the view has %d of %d steps: %v", len(rows), len(a.state.Steps), rows)
	}
	for i := range rows {
		ch.checkStep(a, &rows[i])
	}
	a.sdk.check(a)
	attempts := ch.u.disk.Attempts(a.id)
	n := 0
	for i := range a.model.steps {
		for k, want := range a.model.steps[i].attempts {
			if n >= len(attempts) {
				break
			}
			row := attempts[n]
			got := attemptModel{row.ReadyAt, row.Started, row.Ended}
			if row.Step != core.StepID(i) || row.Attempt != k+1 || !reflect.DeepEqual(got, want) {
				ch.u.violate(Replay, a.id, "the view's attempt %+v is not attempt %d of step %d: %+v",
					row, k+1, i, want)
			}
			n++
		}
	}
	if n != len(attempts) {
		ch.u.violate(Replay, a.id, "the view has %d attempts that are not in the journal", len(attempts)-n)
	}
}

// finalPage lists all runs like callers do. The engine must not add rows of its own to a view that is up to date.
func (ch *checker) finalPage() {
	page, err := ch.u.disk.List(ch.u.ctx, journal.Query{Limit: len(ch.order) + 1})
	if err != nil || len(page.Runs) != len(ch.order) {
		ch.u.violate(Replay, core.RunID{}, "the list has %d of %d runs: %v", len(page.Runs), len(ch.order), err)
	}
	for _, s := range ch.u.partitions {
		call := &engine.ListCall{Query: journal.Query{Limit: len(ch.order)}}
		s.node.p.Handle(call, ch.u.clock())
		if len(call.Answer.Rows) != 0 {
			ch.u.violate(Replay, core.RunID{}, "partition %d still replaces %d rows of a view that is up to date",
				s.number, len(call.Answer.Rows))
		}
	}
}
