package sim

import (
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/sim/sdk"
	"github.com/pawl-dev/pawl/internal/temporal"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// sdkKind is how the gateway has its workflows executed.
var sdkKind = temporal.New(temporal.Settings{}).Kinds(nil, nil)[history.Kind]

// sdkWorkflow returns a workflow that an SDK decides for.
func sdkWorkflow(name string) (*workflow, error) {
	w := &workflow{sdk: true, source: journal.Definition{
		ID: history.DefinitionID(name), Kind: history.Kind, Name: name, Source: []byte(name),
	}}
	w.compiled, w.err = sdkKind.Compile(w.source)
	return w, w.err
}

// newSDK decides whether a universe has workers of SDKs. Where runs rest, one cannot tell a worker that does not come
// from one that must not.
func newSDK(u *universe) *sdkWorkers {
	w := &sdkWorkers{random: newRandom(u.seed, 0x5d4), u: u, shown: map[core.RunID][][]byte{}}
	w.planted = !u.rest.planted && w.chance(0.4)
	return w
}

// planAll puts what the clients of these workflows do on the agenda.
func (w *sdkWorkers) planAll() {
	u := w.u
	if !w.planted {
		return
	}
	length := u.end.Sub(epoch)
	often := func(most int, what string, do func()) {
		for range 1 + w.IntN(most) {
			u.agenda.add(epoch.Add(w.between(0, length)), what, do)
		}
	}
	often(u.opt.Runs, "a client starts a workflow of an SDK", w.start)
	often(2*u.opt.Runs, "a client sends an update", w.update)
	often(u.opt.Runs, "a client resets a workflow", w.reset)
	often(2*u.opt.Runs, "somebody reads a history", w.look)
}

func (w *sdkWorkers) start() {
	u, c := w.u, w.u.clients
	name, id := sdk.Name(w.IntN(sdk.Types)), sdk.WorkflowID(w.IntN(4))
	q := &workflowservice.StartWorkflowExecutionRequest{
		WorkflowId: id, WorkflowType: &commonpb.WorkflowType{Name: name}, Input: sdk.Input(w.IntN(3)),
		TaskQueue: &taskqueuepb.TaskQueue{Name: sdk.Queue}, RetryPolicy: sdk.Retry(w.Rand),
	}
	if w.chance(0.2) {
		q.WorkflowRunTimeout = durationpb.New(w.span(time.Second, time.Hour))
	}
	if w.chance(0.2) {
		q.WorkflowExecutionTimeout = durationpb.New(w.span(time.Second, 3*time.Hour))
		if w.chance(0.3) {
			q.CronSchedule = "@every 4m"
		}
	}
	input, err := proto.Marshal(q)
	flow, bad := sdkWorkflow(name)
	if err != nil || bad != nil {
		panic(fmt.Sprint(err, bad))
	}
	r := &request{mark: c.mark()}
	s := engine.StartRequest{
		Definition: flow.source, OnConflict: engine.Conflict(w.IntN(3)), Start: core.Start{
			WorkflowID: id, Input: input, Reason: r.mark, Actor: "client", Headers: headersOfStart(r.mark),
		},
	}
	if w.chance(0.2) {
		s.At = u.clock().Add(w.span(time.Millisecond, 10*time.Minute))
	}
	r.call = &engine.StartCall{Start: s}
	c.send(r)
}

// some chooses a run, most often one that is open.
func (w *sdkWorkers) some() *account {
	var all []*account
	for _, a := range w.u.checker.order {
		if a.sdk != nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil
	}
	a := pick(w.random, all)
	for range 3 {
		if !a.model.closed {
			break
		}
		a = pick(w.random, all)
	}
	return a
}

func (w *sdkWorkers) update() {
	a := w.some()
	if a == nil || a.model.closed {
		return
	}
	id := fmt.Sprintf("u%d", w.IntN(30))
	w.reach(&sdkTask{run: a.id}, func(h *sdkHost) {
		r := h.use(a.id)
		waits := func(q *updatepb.Request) bool { return q.Meta.UpdateId == id }
		if r == nil || r.fold.Update(id) != nil || slices.ContainsFunc(r.updates, waits) {
			return
		}
		r.updates = append(r.updates, &updatepb.Request{
			Meta: &updatepb.Meta{UpdateId: id}, Input: &updatepb.Input{Name: "change"},
		})
		h.look(a.id)
	})
}

// look reads the history of a run as its owner shows it now.
func (w *sdkWorkers) look() {
	a := w.some()
	if a == nil {
		return
	}
	w.reach(&sdkTask{run: a.id}, func(h *sdkHost) {
		r := h.use(a.id)
		seen := r.fold.Entries
		if r.out != nil {
			seen = r.out.seen
		}
		if r.busy != nil {
			return // the run is locked
		}
		w.read(r, seen)
	})
}

// reset resets a run to one of its tasks.
func (w *sdkWorkers) reset() {
	a := w.some()
	if a == nil || a.sdk.copied(a) {
		return
	}
	f := a.sdk.fold
	events := f.View(f.Entries)
	var ids []int64
	for _, e := range events {
		if _, ok := f.TurnAt(e.EventId); ok {
			ids = append(ids, e.EventId)
		}
	}
	if len(ids) == 0 {
		return
	}
	r := &request{mark: w.u.clients.mark(), repeated: true}
	q := &workflowservice.ResetWorkflowExecutionRequest{
		WorkflowTaskFinishEventId: pick(w.random, ids), Identity: "client", Reason: "reset",
	}
	if w.chance(0.2) {
		q.ResetReapplyExcludeTypes = []enumspb.ResetReapplyExcludeType{
			pick(w.random, []enumspb.ResetReapplyExcludeType{
				enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
			}),
		}
	}
	base, err := temporal.NewBase(f, events, q)
	if err != nil {
		w.u.violate(Decided, a.id, "the run cannot be reset to event %d: %v", q.WorkflowTaskFinishEventId, err)
		return
	}
	req := engine.ForkRequest{WorkflowID: a.state.WorkflowID, Actor: "client", Reason: "reset"}
	if open := w.u.checker.openNames[req.WorkflowID]; open != nil && !open.model.closed {
		req.Open, req.Seq = open.id, len(open.entries)
	}
	if base.Fork(&req, a.entries, q) != nil {
		return // a child was open then
	}
	r.call = &engine.ForkCall{Fork: req}
	w.u.clients.send(r)
}

// sdkModel is the checker's knowledge of a run that an SDK decides for.
type sdkModel struct {
	fold *history.Fold
	// heard are the numbers of the entries that have brought the events which the run keeps, in their order.
	heard []int
	first uint64 // the batch that has created the run
}

// copied reports whether an entry of the batch at hand is one of another run, with which this one begins.
func (m *sdkModel) copied(a *account) bool {
	return m != nil && m.fold.Origin() != a.id && a.seqs[len(a.seqs)-1] == m.first
}

// addEntry takes an entry before the model of the run does. An answer that ends the run has heard all.
func (m *sdkModel) addEntry(a *account, e core.Entry) {
	if m == nil {
		return
	}
	u := a.model.ch.u
	news, entries := m.fold.News(), m.fold.Entries
	ends := slices.ContainsFunc(e.Records, func(rec core.Record) bool { _, ok := rec.(core.RunClosing); return ok })
	for _, rec := range e.Records {
		answer, ok := rec.(core.BodyAnswered)
		switch {
		case !ok:
		case answer.Seen > entries:
			u.violate(Decided, a.id, "an answer knows %d entries, and the run has %d", answer.Seen, entries)
		case ends && news > answer.Seen:
			u.violate(Decided, a.id, "an answer ends the run, and does not know its entry %d", news)
		}
	}
	m.fold.Add(e)
	if entries == 0 {
		m.first = a.seqs[0]
	}
}

// hears takes what the run's body is told, or has heard.
func hears(m *runModel, rec core.Record) {
	m.notByTimer = true
	answer, ok := rec.(core.BodyAnswered)
	if !ok {
		return
	}
	own := m.a.sdk
	for len(own.heard) > 0 && own.heard[0] <= answer.Seen {
		own.heard, m.events = own.heard[1:], m.events[1:]
	}
}

// check checks the whole history of a run that has ended.
func (m *sdkModel) check(a *account) {
	if m == nil {
		return
	}
	u := a.model.ch.u
	again := history.New(a.id)
	for _, raw := range a.encoded {
		e, _, err := core.ReadEntry(raw)
		if err != nil {
			u.violate(Replay, a.id, "an entry cannot be read: %v", err)
			return
		}
		again.Add(e)
	}
	events, other := m.fold.View(m.fold.Entries), again.View(again.Entries)
	for i, e := range events {
		if len(events) != len(other) || string(encoded(e)) != string(encoded(other[i])) {
			u.violate(Replay, a.id, "folded again, the history of %d events differs from event %d on", len(events), i+1)
			return
		}
	}
	if _, err := sdk.Play(events); err != nil {
		u.violate(Decided, a.id, "a worker that replays the history of the run says: %v", err)
	}
	u.sdk.read(&sdkRun{id: a.id, fold: m.fold}, m.fold.Entries)
}

// tells reports whether an entry has an event for the run's body, or its answer.
func (m *sdkModel) tells(e core.Entry) bool {
	return m != nil && slices.ContainsFunc(e.Records, func(rec core.Record) bool {
		switch rec.(type) {
		case core.BodyAnswered, core.SignalKept:
			return true
		default:
			return false
		}
	})
}
