package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/naming"
)

var _ API = (*Engine)(nil)

// Start makes a run. It returns when the start is durable.
// Errors: CodeInvalid, CodeTooLarge, CodeConflict, CodeStalled, CodeUncertain, CodeClosed.
func (e *Engine) Start(ctx context.Context, r StartRequest) (Started, error) {
	if err := e.checkPayload("start", r.Definition.Name, r.Input); err != nil {
		return Started{}, err
	}
	texts := naming.Start{
		WorkflowID: r.WorkflowID, Key: r.Key, Queue: r.Queue.Name, QueueKey: r.Queue.Key, Actor: r.Actor,
		Reason: r.Reason,
	}
	if err := texts.Check(); err != nil {
		return Started{}, invalid("start", r.Definition.Name, "%w", err)
	}
	w, err := e.defs.use(ctx, &r.Definition)
	if err != nil {
		return Started{}, invalid("start", r.Definition.Name, "the definition cannot be used: %w", err)
	}
	if w.def.Recalls && !r.Chain.AfterFailure {
		if r.Chain.AfterFailure, err = e.lastFailed(ctx, r.Definition.Name); err != nil {
			return Started{}, err
		}
	}
	if w.def.Newest && r.WorkflowID != "" && r.OnConflict == ConflictFail {
		return replace(ctx, e, r, w)
	}
	home, err := e.home(&r)
	if err != nil {
		return Started{}, err
	}
	return home.start(ctx, r, w)
}

// start makes a run in the partition.
func (e *driver) start(ctx context.Context, r StartRequest, w *workflow) (Started, error) {
	if err := e.enter(ctx, "start"); err != nil {
		return Started{}, err
	}
	defer e.leave()
	c := e.spare.starts.get()
	c.Start, c.workflow = r, w
	if err := e.ask(ctx, c); err != nil {
		return Started{}, err
	}
	started := c.Answer
	e.spare.starts.put(c)
	return started, nil
}

// lastFailed reports whether the last run of a workflow failed. Child runs do not count, nor do runs that were stopped.
func (e *Engine) lastFailed(ctx context.Context, workflow string) (bool, error) {
	ended := []core.RunPhase{core.RunSucceeded, core.RunFailed, core.RunTimedOut}
	page, err := e.List(ctx, journal.Query{Workflow: workflow, Phases: ended, Top: true, Limit: 1})
	return err == nil && len(page.Runs) > 0 && page.Runs[0].Phase.Failed(), err
}

// checkPayload refuses a payload that is too large. The meaning of its bytes is defined by the kind and its callers.
func (e *Engine) checkPayload(op, id string, b []byte) error {
	if len(b) > e.cfg.MaxPayload {
		return &Error{
			Code: CodeTooLarge, Op: op, ID: id, Err: errors.New(tooLarge(len(b), e.cfg.MaxPayload)),
			Hint: "store it elsewhere and pass a reference, or raise the limit",
		}
	}
	return nil
}

// Operate applies an operation. It returns when the operation is durable. If the run's chain has gone on, an operation
// on the whole run goes to the last run of the chain, unless it retries the run. Errors: CodeNotFound, CodeConflict,
// CodeRunClosed, CodeInvalid, and those of Start.
func (e *Engine) Operate(ctx context.Context, id core.RunID, op core.Operation) error {
	return e.Input(ctx, id, op, false)
}

// Signal delivers an event. It returns when the event is durable. If the run's chain has gone on, the event goes to the
// last run of the chain. An expected event is refused if no step of a flow can wait for it.
// Errors: those of Operate, CodeFull.
func (e *Engine) Signal(ctx context.Context, id core.RunID, s core.SignalReceived, expected bool) error {
	if expected {
		return e.Input(ctx, id, core.ExpectedSignal{Event: s}, false)
	}
	return e.Input(ctx, id, s, false)
}

// Input gives an event or an operation to a run, as Signal and Operate do. An exact one is for the named run alone, and
// refused with CodeRunClosed if that has ended, though its chain has gone on.
func (e *Engine) Input(ctx context.Context, id core.RunID, in core.Input, exact bool) error {
	op, payload, err := "event send", []byte(nil), error(nil)
	switch in := in.(type) {
	case core.Operation:
		op, payload, err = in.Op.String(), in.Output, naming.Operation{Actor: in.Actor, Reason: in.Reason}.Check()
	case core.SignalReceived:
		payload, err = in.Payload, checkEvent(&in)
	case core.ExpectedSignal:
		payload, err = in.Event.Payload, checkEvent(&in.Event)
	default:
		err = fmt.Errorf("a caller gives no %T", in)
	}
	if err != nil {
		return invalid(op, id.String(), "%w", err)
	}
	if err := e.checkPayload(op, id.String(), payload); err != nil {
		return err
	}
	return e.of(id).input(ctx, id, in, exact)
}

// checkEvent refuses an event without a name, and texts that cannot be kept.
func checkEvent(s *core.SignalReceived) error {
	if s.Name == "" {
		return errors.New("the event's name is empty")
	}
	return naming.Send{Name: s.Name, ID: s.ID, Actor: s.Actor, Reason: s.Reason}.Check()
}

func (e *driver) input(ctx context.Context, id core.RunID, in core.Input, exact bool) error {
	c := e.spare.inputs.get()
	c.Run, c.Input, c.Exact = id, in, exact
	if id == (core.RunID{}) {
		return emptyID(c.op())
	}
	if err := e.enter(ctx, c.op()); err != nil {
		return err
	}
	defer e.leave()
	if err := e.ask(ctx, c); err != nil {
		return err
	}
	e.spare.inputs.put(c)
	return nil
}

// Result waits until the run has ended. If the chain goes on, Result waits until the chain has ended.
// Errors: CodeInvalid, CodeNotFound, CodeClosed, CodeCancelled.
func (e *Engine) Result(ctx context.Context, id core.RunID) (Outcome, error) {
	if id == (core.RunID{}) {
		return Outcome{}, emptyID("result")
	}
	part := e.of(id)
	for {
		out, next, err := part.result(ctx, id)
		if err != nil || next == (core.RunID{}) {
			return out, err
		}
		id = next // the next run of the chain, or the same run if the call must be repeated
	}
}

// result waits for the outcome of one run. It may instead return a run whose outcome to wait for next.
func (e *driver) result(ctx context.Context, id core.RunID) (Outcome, core.RunID, error) {
	w := NewWaiter()
	c := e.spare.results.get()
	c.Run, c.Waiter = id, w
	if err := e.send(ctx, c); err != nil {
		return Outcome{}, core.RunID{}, err
	}
	for {
		select {
		case r := <-w.ch:
			select {
			case <-c.ch: // takes the answer out, if there was one: the call goes back into the pool
			default:
			}
			e.spare.results.put(c)
			if r.again {
				return Outcome{}, id, nil
			}
			return r.outcome, core.RunID{}, r.err
		case <-c.ch:
			again, answer, failed := mustRepeat(c), c.Answer, c.Err
			switch {
			case again:
				e.spare.results.put(c)
				return Outcome{}, id, nil
			case failed != nil || answer.Absent == (core.RunID{}):
				e.spare.results.put(c)
				return answer.Outcome, core.RunID{}, failed
			}
			out, next, ended, err := e.ended(ctx, answer.Absent)
			if err != nil || ended {
				e.tell(&LeaveCall{Waiter: w})
				return out, next, err
			}
		case <-ctx.Done():
			e.tell(&LeaveCall{Waiter: w})
			return Outcome{}, core.RunID{}, e.gaveUp(ctx, c)
		}
	}
}

// ended reads the outcome of a run that is not in memory. It returns false if the run has not ended.
func (e *driver) ended(ctx context.Context, id core.RunID) (Outcome, core.RunID, bool, error) {
	h, err := e.cfg.Journal.History(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		// The run may have been removed because it was old. Its id then means the next run of its chain.
		if next, lookErr := e.lookup(ctx, id.String()); lookErr == nil && next != id {
			return Outcome{}, next, true, nil
		}
	}
	if err != nil {
		return Outcome{}, core.RunID{}, false, readError(&e.state, "result", id.String(), err)
	}
	r, err := e.defs.fold(ctx, id, h.Entries)
	if err != nil || !r.Phase.Closed() {
		return Outcome{}, core.RunID{}, false, err
	}
	return outcomeOf(r), r.Next, true, nil
}

// newest keeps the starts that wait for the run before with their workflow id to end. The newest of them begins, the
// others are refused.
type newest struct {
	mu   sync.Mutex
	last map[string]*replacing // the newest start by workflow id
}

// replacing is a start that waits; over is closed when a newer one has come.
type replacing struct{ over chan struct{} }

// enter notes a start, and tells the waiting one that a newer one has come.
func (n *newest) enter(workflowID string) *replacing {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil {
		n.last = map[string]*replacing{}
	}
	if before := n.last[workflowID]; before != nil {
		close(before.over)
	}
	r := &replacing{over: make(chan struct{})}
	n.last[workflowID] = r
	return r
}

// leave forgets a start that waits no more.
func (n *newest) leave(workflowID string, r *replacing) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last[workflowID] == r {
		delete(n.last, workflowID)
	}
}

var errReplaced = errors.New("a newer start with this workflow id has come")

// replace starts a run in the place of the open run that has its workflow id: it cancels that one, and waits until it
// has ended. If a newer start comes meanwhile, that one begins, and this one is refused.
func replace(ctx context.Context, e *Engine, r StartRequest, w *workflow) (Started, error) {
	waiting := e.newest.enter(r.WorkflowID)
	defer e.newest.leave(r.WorkflowID, waiting)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-waiting.over:
			cancel(errReplaced)
		case <-ctx.Done():
		}
	}()
	for {
		home, err := e.home(&r)
		if err != nil {
			return Started{}, err
		}
		started, err := home.start(ctx, r, w)
		if CodeOf(err) == CodeConflict {
			err = makeWay(ctx, e, &r, err)
			if err == nil {
				continue
			}
		}
		if err != nil && errors.Is(context.Cause(ctx), errReplaced) {
			err = &Error{
				Code: CodeConflict, Op: "start", ID: r.WorkflowID, Err: errReplaced,
				Hint: "the flow says concurrency: newest, so the newest run is the one that counts",
			}
		}
		return started, err
	}
}

// makeWay cancels the open run that has a start's workflow id, and waits until it has ended. conflict is why the start
// was refused; it stays where the open run is of another workflow.
func makeWay(ctx context.Context, e *Engine, r *StartRequest, conflict error) error {
	id, err := e.Lookup(ctx, r.WorkflowID)
	if err != nil {
		return err
	}
	open, err := e.Inspect(ctx, id)
	switch {
	case err != nil:
		return err
	case open.Phase.Closed():
		return nil
	case open.Workflow != r.Definition.Name:
		return conflict
	}
	err = e.Operate(ctx, id, core.Operation{
		Op: core.OpCancel, Step: core.NoStep, Actor: r.Actor,
		Reason: fmt.Sprintf("a newer run of %s is to begin", r.WorkflowID),
	})
	if code := CodeOf(err); err != nil && code != CodeRunClosed && code != CodeConflict { // it may be ending already
		return err
	}
	_, err = e.Result(ctx, id)
	return err
}

// ForkRequest makes a run that begins with entries of another one.
type ForkRequest struct {
	WorkflowID string
	// Entries are those of the other run, whose ids do not matter.
	Entries []core.Entry
	Input   core.Forked // the input behind them
	// Open is the run of the workflow id that is open, and ends, Seq how many entries it has; zero: none is open.
	Open          core.RunID
	Seq           int
	Keep          int // Open has so many of the steps of the new run
	Actor, Reason string
}

// Fork makes a run that begins with entries of another one, and ends the open run of the workflow id, in one commit.
// Errors: CodeStale, if there is another open run by now, or it has other entries; those of Start.
func (e *Engine) Fork(ctx context.Context, r ForkRequest) (core.RunID, error) {
	d := e.ofKey(core.KeyOfWorkflowID(r.WorkflowID))
	if err := d.enter(ctx, "reset"); err != nil {
		return core.RunID{}, err
	}
	defer d.leave()
	c := &ForkCall{Fork: r}
	if err := d.ask(ctx, c); err != nil {
		return core.RunID{}, err
	}
	return c.Answer, nil
}

// ForkCall makes a run that begins with entries of another one.
type ForkCall struct {
	saving[core.RunID]
	Fork ForkRequest
}

func (*ForkCall) op() string { return "reset" }

func (c *ForkCall) do(p *Partition) {
	c.Answer, c.Err = c.make(p)
	p.pipeline.reply(c)
}

func (c *ForkCall) make(p *Partition) (id core.RunID, err error) {
	f := &c.Fork
	if len(f.Entries) == 0 || len(f.Entries[0].Records) == 0 {
		return id, invalid("reset", f.WorkflowID, "no entries are given")
	}
	created, ok := f.Entries[0].Records[0].(core.RunCreated)
	if !ok {
		return id, invalid("reset", f.WorkflowID, "the entries do not begin with that of a new run")
	}
	w, err := p.defs.stored(p.ctx, created.Definition)
	if err != nil {
		return id, invalid("reset", f.WorkflowID, "the definition cannot be used: %w", err)
	}
	open, found, err := p.residents.openRun(f.WorkflowID)
	if err != nil {
		return id, failure("reset", f.WorkflowID, err)
	}
	if !found {
		open = core.RunID{}
	}
	if open != f.Open {
		return id, &Error{Code: CodeStale, Op: "reset", ID: f.WorkflowID, Err: errOtherOpen, Hint: "reset it again"}
	}
	id = p.residents.newID(created.Workflow, f.WorkflowID, "")
	if found {
		if err := c.replace(p, open, id); err != nil {
			return core.RunID{}, err
		}
	}
	p.cfg.Carried.Add(id)
	r := p.residents.create(id, w.kind)
	r.state.Attach(w.def)
	for _, e := range f.Entries {
		e.Run = id
		if err := c.begin(p, r, e); err != nil {
			return core.RunID{}, p.setAsideAfterPanic(r, err)
		}
	}
	p.residents.addNames(r)
	p.children.families.begins(r.state)
	if err := p.advance(r, nil, f.Input); err != nil {
		return core.RunID{}, Refused("reset", id, err)
	}
	return id, nil
}

var errOtherOpen = errors.New("another run of the workflow id is open by now")

// replace ends a run in whose place another one goes on.
func (c *ForkCall) replace(p *Partition, id, next core.RunID) error {
	in := core.Replaced{
		Next: next, Seq: c.Fork.Seq, Keep: c.Fork.Keep, Actor: c.Fork.Actor, Reason: c.Fork.Reason,
	}
	r, err := p.get(id)
	if err != nil {
		return failure("reset", id.String(), err)
	}
	if err := p.advance(r, nil, in); err != nil {
		return Refused("reset", id, err)
	}
	return nil
}

// begin gives a new run an entry that it begins with.
func (c *ForkCall) begin(p *Partition, r *run, e core.Entry) (err error) {
	defer catchPanic("its first entries were folded", nil, &err)
	r.state.Fold(e)
	return p.pipeline.add(&transition{run: r, out: core.Output{Entry: e}}, nil, p.now)
}

// Remove removes a run that has ended, with its history. It first waits until no attempt of the run lives, and until
// the view has the whole run. Errors: CodeInvalid, CodeNotFound, CodeConflict if the run is open, CodeClosed,
// CodeCancelled, CodeStalled if the storage cannot remove it now.
func (e *Engine) Remove(ctx context.Context, id core.RunID) error {
	if id == (core.RunID{}) {
		return emptyID("remove")
	}
	return e.of(id).remove(ctx, id)
}

func (e *driver) remove(ctx context.Context, id core.RunID) error {
	if err := e.enter(ctx, "remove"); err != nil {
		return err
	}
	defer e.leave()
	if err := e.ask(ctx, &RemoveCall{Run: id}); err != nil {
		return err
	}
	j := e.cfg.Journal
	n, err := j.Prune(ctx, e.cfg.Partition, journal.Old{Run: id})
	if err != nil {
		return readError(&e.state, "remove", id.String(), err)
	}
	if n > 0 {
		return e.ask(ctx, &RemoveCall{Run: id, Gone: true})
	}
	h, err := j.History(ctx, id)
	if err != nil {
		return readError(&e.state, "remove", id.String(), err)
	}
	closed := false
	for i := range h.Entries {
		closed = h.Entries[i].Ended(closed)
	}
	if !closed {
		return notEnded(id)
	}
	return &Error{
		Code: CodeStalled, Op: "remove", ID: id.String(), Err: errors.New("its partition moves to another storage"),
		Hint: "try again once it has moved",
	}
}
