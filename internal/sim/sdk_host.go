package sim

import (
	"bytes"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/sim/sdk"
	"github.com/pawl-dev/pawl/internal/temporal/history"
	"github.com/pawl-dev/pawl/internal/temporal/tasks"
)

// sdkHost gives workers the workflow tasks of a node's runs that SDKs decide for, as the gateway does. The history and
// the commands are those of the gateway. Its goroutines are not, since a universe has none.
type sdkHost struct {
	n          *node
	epoch      int // the number of the host
	leases     int // tasks that were given out
	generation int
	runs       map[core.RunID]*sdkRun
}

// sdkRun is what a host knows of a run.
type sdkRun struct {
	id      core.RunID
	fold    *history.Fold
	body    *engine.Body
	out     *sdkTask // the task that a worker has; nil: none has one
	planned bool     // a worker is going to ask for a task
	busy    *sdkTask // the task whose answer is on its way to the engine
	failed  int32    // tasks that failed after the last one whose failure was recorded
	updates []*updatepb.Request
}

// sdkTask is a task with what its worker was told.
type sdkTask struct {
	epoch, number int
	run           core.RunID
	seen, turn    int
	began         core.Time
	attempt       int32
	started       int64 // the id of the event with which it began
	bare          bool  // it is there for updates alone
	events        []*history.Event
	answer        *sdk.Reply
}

func newSDKHost(n *node) *sdkHost {
	n.u.sdk.hosts++
	return &sdkHost{n: n, epoch: n.u.sdk.hosts, runs: map[core.RunID]*sdkRun{}}
}

func (h *sdkHost) Consult(n engine.News) (decides bool) {
	if !n.Held {
		h.look(n.Run)
	}
	return false
}

func (h *sdkHost) CanBegin(core.RunID, string, string, string) bool { return true }

func (h *sdkHost) Forget(run core.RunID) { delete(h.runs, run) }

func (h *sdkHost) Reset(generation int, lives func(core.RunID) bool) {
	h.generation = max(h.generation, generation)
	for id := range h.runs {
		if lives(id) {
			delete(h.runs, id)
		}
	}
}

// use returns a run with all of its history that is durable; nil: there is none.
func (h *sdkHost) use(id core.RunID) *sdkRun {
	a := h.n.u.checker.accounts[id]
	if a == nil {
		return nil
	}
	r := h.runs[id]
	if r == nil {
		r = &sdkRun{id: id, fold: history.New(id), body: engine.NewBody(h.generation)}
		h.runs[id] = r
	}
	r.fold.Rest() // as the gateway does after each use
	before := r.fold.Entries
	for _, e := range a.entries[before:] {
		r.fold.Add(e)
	}
	if attempt, isDue := r.fold.Due(); r.fold.Entries > before && (!isDue || attempt == 1) {
		r.failed = 0
	}
	return r
}

// due returns which attempt of a task is due; false: none is.
func (r *sdkRun) due() (attempt int32, is bool) {
	attempt, is = r.fold.Due()
	later := !r.fold.Begun() && r.fold.Chain.Previous != (core.RunID{})
	if !is && len(r.updates) > 0 && !later && r.fold.Closed == 0 {
		attempt, is = 1, true
	}
	return attempt + r.failed, is && !r.fold.Paused()
}

// look looks what there is to do for a run, once what the engine has decided by now is durable.
func (h *sdkHost) look(id core.RunID) {
	host := h.n.host
	host.inTransit[id]++
	h.n.after(h.n.u.sdk.lag(), "news of a run are read", func() {
		read := &engine.EntriesCall{Run: id}
		read.Answered().Done = func(err error) {
			host.arrived(id)
			if err == nil && !h.n.dead {
				h.offer(id)
			}
		}
		if h.n.needsOpen || h.n.giving {
			host.arrived(id) // it is consulted again
			return
		}
		h.n.call(read)
	})
}

// offer lets a worker ask for the task that is due.
func (h *sdkHost) offer(id core.RunID) {
	r := h.use(id)
	if r == nil || r.out != nil || r.busy != nil || r.planned {
		return
	}
	if _, isDue := r.due(); !isDue {
		return
	}
	r.planned = true
	h.n.host.after(id, h.n.u.sdk.lag(), "a worker asks for a task", func() {
		if h.runs[id] == r {
			r.planned = false
			h.take(id)
		}
	})
}

// take gives a worker the task that is due, and plans what the worker does with it.
func (h *sdkHost) take(id core.RunID) {
	r := h.use(id)
	attempt, isDue := r.due()
	if !isDue || r.out != nil || r.busy != nil {
		return
	}
	u := h.n.u
	_, news := r.fold.Due()
	h.leases++
	t := &sdkTask{
		epoch: h.epoch, number: h.leases, run: id, seen: r.fold.Entries, turn: r.fold.Turns, began: u.clock(),
		attempt: attempt, bare: !news,
	}
	u.sdk.read(r, r.fold.Entries)
	task := r.fold.Task(t.seen, 0, t.began, "worker", t.attempt)
	t.events, t.started = task.Events, task.Started
	known, err := sdk.Play(task.Events)
	if err != nil {
		u.violate(Decided, id, "a worker that replays the history of its task says: %v", err)
		return
	}
	t.answer = known.Answer(t.started, r.updates, t.bare, u.sdk.Rand)
	r.updates, r.out = nil, t
	h.n.host.after(id, r.fold.TaskTimeout(), "a task times out", func() {
		h.fail(t, &history.Meta{Identity: "worker"})
	})
	u.sdk.plan(t)
}

// fail ends a task badly, unless it has ended, or its answer is on its way: the gateway has locked the run then. Of
// those that fail one after the other, the first is recorded.
func (h *sdkHost) fail(t *sdkTask, m *history.Meta) {
	r := h.runs[t.run]
	if r == nil || r.out != t || r.busy == t {
		return
	}
	if r.busy != nil { // the late answer to an older one has locked the run
		h.n.host.after(t.run, time.Millisecond, "a task ends badly", func() { h.fail(t, m) })
		return
	}
	r.out = nil
	if t.attempt > 1 {
		r.failed++
		h.look(r.id)
		return
	}
	h.do(r, t, m, true, nil, func(err error) {
		if err != nil {
			r.failed++
		}
		h.look(r.id)
	})
}

// do gives the engine an answer.
func (h *sdkHost) do(
	r *sdkRun, t *sdkTask, m *history.Meta, again bool, cmds []core.Command, done func(error),
) {
	m.Attempt = t.attempt
	meta, err := m.Encode()
	if err != nil {
		h.n.u.violate(Recorded, r.id, "an answer cannot be kept: %v", err)
		return
	}
	a := core.Answer{Turn: t.turn, Seen: t.seen, Began: t.began, Again: again, Meta: meta}
	in := []core.Input{core.Commands{Commands: append([]core.Command{a}, cmds...)}}
	r.busy = t
	engineCalls{h.n.host}.Do(r.id, r.body, in, func(err error) {
		if h.runs[r.id] != r {
			return
		}
		r.busy = nil
		if err != nil {
			r.body = engine.NewBody(h.generation)
		}
		h.use(r.id)
		done(err)
	})
}

// complete takes the answer of a worker.
func (h *sdkHost) complete(t *sdkTask) {
	u := h.n.u
	r := h.use(t.run)
	if r == nil || r.busy != nil {
		return // the worker is told that there is no such task
	}
	f := r.fold
	switch {
	case r.out == t:
	case r.out == nil && t.epoch != h.epoch && f.Turns == t.turn && f.Closed == 0 && f.News() <= t.seen:
		r.out = t // nobody was shown anything that this worker does not know
	case f.Turns != t.turn:
		h.forge(r, t)
		return
	default:
		return
	}
	if t.bare && t.attempt == 1 && len(t.answer.Kept) == 0 && len(t.answer.Commands) == 0 {
		r.out = nil
		h.look(t.run)
		return
	}
	q := &workflowservice.RespondWorkflowTaskCompletedRequest{Identity: "worker", Commands: t.answer.Commands}
	kept := map[string]bool{}
	for _, m := range t.answer.Kept {
		kept[m.Id] = history.Told(m)
	}
	cmds, err := tasks.Decide(f, t.started, t.answer.Commands, func(id string) bool { return kept[id] })
	if err != nil {
		u.violate(Decided, t.run, "an answer of a worker that replays its history is refused: %v", err)
		return
	}
	h.do(r, t, &history.Meta{Completed: q, Messages: t.answer.Kept}, false, cmds, func(err error) {
		unheard := t.answer.Ends && f.Closed == 0 && f.Turns == t.turn && f.News() > t.seen
		switch {
		case err == nil:
			r.out, r.failed = nil, 0
			u.sdk.took(r, t)
		case unheard && r.out == t:
			h.fail(t, failedTask(enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND))
			return
		default:
			r.out = nil
		}
		h.look(t.run)
	})
}

func failedTask(cause enumspb.WorkflowTaskFailedCause) *history.Meta {
	return &history.Meta{Failed: &workflowservice.RespondWorkflowTaskFailedRequest{
		Cause: cause, Identity: "worker", Failure: &failurepb.Failure{Message: "it failed"},
	}}
}

// forge gives the engine an answer that follows another number of answers than the run has: it must be refused.
func (h *sdkHost) forge(r *sdkRun, t *sdkTask) {
	cmds, err := tasks.Decide(r.fold, t.started, t.answer.Commands, func(string) bool { return true })
	if err != nil {
		return
	}
	h.do(r, t, &history.Meta{Completed: &workflowservice.RespondWorkflowTaskCompletedRequest{}}, false, cmds,
		func(err error) {
			if err == nil {
				h.n.u.violate(Decided, r.id, "the answer to a task was taken that was answered before")
			}
			h.look(r.id)
		})
}

// sdkWorkers are the workers of SDKs outside, and the clients of their workflows, in some universes.
type sdkWorkers struct {
	random
	u       *universe
	planted bool
	hosts   int
	shown   map[core.RunID][][]byte // the events that anybody was shown
}

// lag returns how long something is on its way between workers and a node.
func (w *sdkWorkers) lag() time.Duration {
	if w.u.noFaults || w.chance(0.3) {
		return 0
	}
	return w.between(0, max(w.u.profile.callTime, time.Millisecond))
}

// plan plans what a worker does with a task: it answers in time or late, once or twice, says that the task has failed,
// or is gone.
func (w *sdkWorkers) plan(t *sdkTask) {
	u := w.u
	d := w.span(time.Microsecond, 20*time.Second)
	if u.noFaults {
		d = w.between(0, 10*time.Millisecond)
	} else if w.chance(0.06) {
		return
	} else if w.chance(0.06) {
		u.after(d, "a worker says that a task has failed", func() {
			w.reach(t, func(h *sdkHost) {
				h.fail(t, failedTask(enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE))
			})
		})
		return
	}
	answer := func() { w.reach(t, func(h *sdkHost) { h.complete(t) }) }
	u.after(d, "a worker answers a task", answer)
	if !u.noFaults && w.chance(u.profile.repeats) {
		u.after(d+w.span(time.Microsecond, 5*time.Minute), "a worker answers a task again", answer)
	}
}

// reach lets a worker talk with the host that has its run now, if there is one.
func (w *sdkWorkers) reach(t *sdkTask, do func(h *sdkHost)) {
	if n := w.u.partitionOf(t.run).node; n.up() && n.sdk != nil {
		do(n.sdk)
		n.turn()
	}
}

// read lets somebody read the history of a run, as far as an entry: it only grows.
func (w *sdkWorkers) read(r *sdkRun, seen int) {
	events, known := r.fold.View(seen), w.shown[r.id]
	if len(events) < len(known) {
		w.u.violate(Decided, r.id, "the history has %d events, and had %d before", len(events), len(known))
		return
	}
	for i, e := range events {
		text := encoded(e)
		switch {
		case i >= len(known):
			known = append(known, text)
		case !bytes.Equal(text, known[i]):
			w.u.violate(Decided, r.id, "event %d was shown otherwise before: now %s", i+1, e)
			return
		}
	}
	w.shown[r.id] = known
}

// took checks what has become of an answer that was taken: the events that its worker knew, and behind them those that
// it has foreseen.
func (w *sdkWorkers) took(r *sdkRun, t *sdkTask) {
	events := r.fold.View(r.fold.Entries)
	for i, e := range t.events {
		if i >= len(events) || !bytes.Equal(encoded(e), encoded(events[i])) {
			w.u.violate(Decided, r.id, "the worker knew event %d as %s, and that is not what it is now", i+1, e)
			return
		}
	}
	become := append([]enumspb.EventType{enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}, t.answer.Become...)
	for i, kind := range become {
		if at := int(t.started) + i; at >= len(events) || events[at].EventType != kind {
			w.u.violate(Decided, r.id, "event %d is not %s, which a worker has foreseen: %v", at+1, kind, events)
			return
		}
	}
	w.read(r, r.fold.Entries)
}

func encoded(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // it was read from bytes
	}
	return b
}
