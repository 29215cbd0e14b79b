package sim

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/policy"
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
	// The limits that programs share are the engine's, and not known here; a run that was set aside has no words.
	words := trail.Row(r)
	if a.document != nil && !ch.u.bug.panicked[a.id] && !strings.HasSuffix(row.Told, string(words)) {
		ch.u.violate(Foretold, a.id, "the row tells %q, the journal says %q", row.Told, words)
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

// foretold is what a run says of its future after an entry.
type foretold struct {
	end  api.End                     // the first end whose instant is certain; without one, At is zero
	from map[core.StepID]nextAttempt // when attempts start that follow a failed one
	// moved: somebody has acted since, so the end may be another one.
	moved bool
}

// nextAttempt is an attempt that was foretold.
type nextAttempt struct {
	number int
	from   core.Time
	exact  bool // its step shares no limit: it is ready at that instant
}

// foretell writes down what the run says.
func (a *account) foretell() {
	a.foretold.end, a.foretold.moved = api.End{}, false
	if e, ok := trail.FirstEnd(a.state); ok {
		a.foretold.end = e
	}
}

// checkEndForetold checks that the first end that a run has foretold is not missed.
func (a *account) checkEndForetold(ch *checker, now core.Time) {
	if e := a.foretold.end; e.At != 0 && core.Time(e.At) <= now {
		ch.u.violate(Foretold, a.id, "it has said that %q ends it at %s, now it is %s, and nothing has happened",
			e.Step+" "+e.Text, offset(core.Time(e.At)), offset(now))
	}
}

// checkForetold compares an entry with what the run has said before it.
func (a *account) checkForetold(ch *checker, e core.Entry) {
	for i, rec := range e.Records {
		switch rec := rec.(type) {
		case core.AttemptEnded:
			if i == 0 {
				a.checkVerdict(ch, e.At, rec)
			}
		case core.AttemptStarted:
			a.checkStart(ch, e.At, rec.Step)
		case core.RunStopping:
			a.checkRunEnds(ch, e.At, rec.Failure)
		case core.RunClosing:
			a.checkRunEnds(ch, e.At, rec.Failure)
		case core.StepEnded:
			if int(rec.Step) < len(a.state.Steps) && a.state.Steps[rec.Step].Spec.Hook {
				a.checkSooner(ch, e.At, rec.Failure, keyOf(a.state, rec.Step))
			}
		case core.StepReset:
			delete(a.foretold.from, rec.Step)
		case core.StepPolicy:
			delete(a.foretold.from, rec.Step)
		case core.Operated, core.PauseBegan, core.PauseEnded:
			clear(a.foretold.from)
			a.foretold.moved = true
		default:
		}
	}
}

// checkStart checks that an attempt does not start sooner than was said.
func (a *account) checkStart(ch *checker, at core.Time, step core.StepID) {
	next, said := a.foretold.from[step]
	delete(a.foretold.from, step)
	if said && at < next.from {
		ch.u.violate(Foretold, a.id, "attempt %d of step %q starts at %s, and was to start at %s or later", next.number,
			keyOf(a.state, step), offset(at), offset(next.from))
	}
}

// checkRunEnds checks that a limit of its own ends a run when that was said. Once the run stops, its limits have done
// their work.
func (a *account) checkRunEnds(ch *checker, at core.Time, f *policy.Failure) {
	if f != nil && (f.Limit == policy.LimitRun || f.Limit == policy.LimitExecution) && !a.state.Ending() {
		a.checkSooner(ch, at, f, "the run")
	}
}

// checkSooner checks that no limit ends a run, or a hook of it, sooner than what was said to end it first.
func (a *account) checkSooner(ch *checker, at core.Time, f *policy.Failure, what string) {
	if f == nil || f.Kind != policy.KindTimeout || f.Limit == policy.LimitNone || f.Limit.PerAttempt() ||
		!strings.HasSuffix(f.Message, " expired") || strings.HasPrefix(f.Message, "step") {
		return // a failed attempt after which a limit leaves no time for another one ends it when it fails
	}
	if end := a.foretold.end; a.foretold.moved {
		return
	} else if end.At == 0 || at < core.Time(end.At) {
		ch.u.violate(Foretold, a.id, "the limit %s ends %s at %s, and it has said that %q ends it first, at %s",
			f.Limit, what, offset(at), end.Step+" "+end.Text, offset(core.Time(end.At)))
	}
}

func keyOf(r *core.Run, id core.StepID) string {
	if int(id) >= len(r.Steps) {
		return ""
	}
	return r.Steps[id].Key()
}

// checkVerdict compares what follows a failed attempt with what the run has said of an attempt that fails after that
// time.
func (a *account) checkVerdict(ch *checker, at core.Time, rec core.AttemptEnded) {
	r := a.state
	delete(a.foretold.from, rec.Step)
	if int(rec.Step) >= len(r.Steps) {
		return
	}
	s := &r.Steps[rec.Step]
	if s.Phase != core.StepRunning || !foreseeable(r, s, rec.Failure) {
		return
	}
	if _, due := r.Binding(s); due != 0 && due <= at {
		return
	}
	assumed := *s
	assumed.Past.Ended, assumed.Past.Took = 1, at.Sub(s.Started)
	said := core.LookAhead(r, &assumed, 1)
	last := said.At != 0 && said.Attempt == s.Attempt
	switch {
	case !rec.Retry && !last:
		ch.u.violate(Foretold, a.id, "attempt %d of step %q is the last one, and it has said that others follow",
			s.Attempt, s.Key())
	case !rec.Retry && said.At != at:
		ch.u.violate(Foretold, a.id, "step %q gives up at %s, and has said %s", s.Key(), offset(at), offset(said.At))
	case rec.Retry && last && said.At <= rec.NextAt:
		ch.u.violate(Foretold, a.id, "attempt %d of step %q is not the last one, and it has said so: %s", s.Attempt,
			s.Key(), said.Reason)
	case rec.Retry && len(said.Attempts) > 0:
		alone := s.Spec.Share == nil && r.Attached().Queues[s.Spec.Queue].Zero()
		next := nextAttempt{s.Attempt + 1, said.Attempts[0].From, alone}
		if next.exact && next.from != rec.NextAt || next.from < rec.NextAt {
			ch.u.violate(Foretold, a.id, "attempt %d of step %q follows at %s, and has said %s", next.number, s.Key(),
				offset(rec.NextAt), offset(next.from))
		}
		if s.Spec.Share == nil || s.Spec.Share.Service == "" { // a probe of another run may close a breaker sooner
			if a.foretold.from == nil {
				a.foretold.from = map[core.StepID]nextAttempt{}
			}
			a.foretold.from[rec.Step] = next
		}
	}
}

// foreseeable reports whether an attempt ended as a forecast assumes: with an error that its policy retries.
func foreseeable(r *core.Run, s *core.Step, f *policy.Failure) bool {
	retry := s.Effective().Retry
	if f == nil || f.Kind != policy.KindError || f.NonRetryable || f.RetryAfter != nil && *f.RetryAfter > 0 ||
		s.CancelAsked || r.Ending() || r.PausedAt != 0 {
		return false
	}
	return retry == nil ||
		retry.When == "" && retry.Retries(f.Kind) && !slices.Contains(retry.NonRetryable, f.Type)
}
