package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Partition is the engine without goroutines and without a clock: the runs in memory, their timers and queues, and the
// batches that are on their way to the journal. It is not safe for concurrent use. Whoever drives it
//
//	calls Open, then, as things happen, Handle, Report and Tick,
//	takes a batch by Cut, appends it to the journal, and says Committed or Failed, in the order of the batches,
//	reads the runs that come due (Window, ReadWindow, Loaded, WindowDone), or lets Refill do it,
//	reads what other partitions have sent (Expect, Fetch, Fetched).
type Partition struct {
	cfg  Config
	defs *definitions
	ctx  context.Context // of reads of the journal
	now  core.Time       // never runs backwards

	residents residents // the runs in memory
	tasks     tasks     // attempts that wait for a worker or are in a worker's hands
	pipeline  pipeline  // what is on its way to the journal
	audience  audience  // those who wait for runs and watch them
	mail      mail      // what other partitions send, and which those are
	feeds     feeds     // the named consumers of all entries

	todo       ring[errand] // effects within the partition, still to join the open batch
	unread     error        // why the open batch must not be saved; see temporary
	ticking    bool         // what is due comes before what waits for a worker
	generation int          // of the bodies, as of when the memory was last forgotten
}

// NewPartition returns a partition that Open makes ready.
func NewPartition(cfg Config) *Partition {
	cfg = cfg.withDefaults()
	return newPartition(cfg, newDefinitions(cfg.Journal, cfg.Kinds))
}

func newPartition(cfg Config, defs *definitions) *Partition {
	p := &Partition{cfg: cfg, defs: defs, tasks: newTasks(cfg.Matcher, cfg.Wake), audience: newAudience()}
	p.mail.count = cfg.Journal.PartitionCount()
	p.pipeline.view.onPanic = func(r *run, err error) { _ = p.stop(r, err) }
	p.forget()
	return p
}

// forget empties the memory. What workers hold, who waits and who watches stays.
func (p *Partition) forget() {
	p.residents.forget()
	p.tasks.forget()
	p.pipeline.forget()
	p.mail.forget()
	p.todo, p.unread = ring[errand]{}, nil
}

// at moves the partition's time on. A clock that ran backwards is not followed.
func (p *Partition) at(now core.Time) { p.now = max(p.now, now) }

// Handle takes a call. Its answer comes through Call.Done, perhaps before Handle returns.
func (p *Partition) Handle(c *Call, now core.Time) {
	p.at(now)
	switch c.Op {
	case CallStart:
		p.start(c)
	case CallInput:
		p.input(c)
	case CallResult:
		p.result(c)
	case CallLeave:
		p.leave(c)
	case CallEntries:
		p.entries(c)
	case CallUnwatch:
		p.unwatch(c)
	case CallFind:
		p.find(c)
	case CallList:
		p.list(c)
	case CallBody:
		p.body(c)
	case CallConsult:
		p.consult(c)
	case CallBegin:
		p.unpark(c)
	case CallFeed, CallSeen, CallUnfeed, CallDropFeed:
		p.feed(c)
	}
	p.settle()
}

// Report takes a worker's report. One that comes too late changes nothing.
func (p *Partition) Report(id core.RunID, in core.Input, now core.Time) {
	p.at(now)
	rep := report{id, in}
	tok, over := rep.token()
	if over {
		p.pipeline.remember(rep)
	}
	if r, err := p.get(id); err == nil {
		_ = p.advance(r, nil, in)
	} else if !p.temporary(err) {
		p.cfg.Log.Warn("a report for a run that cannot be read", "run", id.String(), "error", err)
	}
	if over {
		p.tasks.release(tok)
	}
	p.settle()
	if p.pipeline.last() == nil && p.unread == nil {
		p.pipeline.open.reports = p.pipeline.open.reports[:0] // refused, and on what is durable
	}
}

// input feeds a caller's input to a run.
func (p *Partition) input(c *Call) {
	find := p.get
	if followed(c.Input) {
		find = p.current
	}
	r, err := find(c.Run)
	if errors.Is(err, journal.ErrNotFound) {
		c.Err = notFound(c.op(), c.Run.String())
	} else if err != nil {
		c.Err = failure(c.op(), c.Run.String(), err)
	} else if err := p.reopens(r, c.Input); err != nil {
		c.Err = err
	} else if err := p.advance(r, nil, c.Input); err != nil {
		c.Err = refused(c.op(), c.Run, err)
	} else {
		p.residents.name(r) // it may have been opened again
	}
	p.reply(c)
}

// followed reports whether an input for a run that others have followed is for the last one: events, and what ends or holds the
// whole. What is about one step, or about a failure of that run, is not.
func followed(in core.Input) bool {
	switch in := in.(type) {
	case core.SignalReceived:
		return true
	case core.Operation:
		return in.Step == core.NoStep && in.Op != core.OpRetryRun
	default:
		return false
	}
}

// reopens refuses to open a run again whose workflow id another run has by now.
func (p *Partition) reopens(r *run, in core.Input) error {
	op, ok := in.(core.Operation)
	s := r.state
	if !ok || (op.Op != core.OpRetryRun && op.Op != core.OpRetryStep) || s.WorkflowID == "" || !s.Phase.Closed() {
		return nil
	}
	id, taken, err := p.openRun(s.WorkflowID)
	if err != nil {
		return failure(op.Op.String(), s.ID.String(), err)
	}
	if !taken || id == s.ID {
		return nil
	}
	return &Error{
		Code: CodeConflict, Op: op.Op.String(), ID: s.ID.String(), Hint: "wait until that run has ended",
		Err: fmt.Errorf("the open run %s has its workflow id %q by now", id, s.WorkflowID),
	}
}

// reply answers a call as soon as everything it may tell about is durable.
func (p *Partition) reply(c *Call) {
	if b := p.pipeline.last(); b != nil {
		b.calls = append(b.calls, c)
	} else {
		c.answer()
	}
}

// tickRuns bounds the runs one Tick advances, so that a batch does not grow without end.
const tickRuns = 512

// Tick lets what is due by now happen, in due order, and reports whether there is more of it than one batch should hold.
func (p *Partition) Tick(now core.Time) (more bool) {
	p.at(now)
	p.ticking = true
	defer func() {
		p.ticking = false
		p.settle()
	}()
	n := 0
	for r := p.residents.wakes.first(); r != nil && r.wake <= p.now; r = p.residents.wakes.first() {
		if n++; n > tickRuns {
			return true
		}
		p.fire(r)
		p.settle()
	}
	for p.residents.restored.len() > 0 {
		if n++; n > tickRuns {
			return true
		}
		p.recover(p.residents.restored.pop())
		p.settle()
	}
	return false
}

func (p *Partition) fire(r *run) {
	if r.lost {
		p.recover(r)
	}
	before := r.state.Seq
	_ = p.advance(r, nil, core.Tick{})
	if r.wake != 0 && r.wake <= p.now && r.state.Seq == before {
		// The machine wants attention and does nothing with it. Asking again at once would never end.
		p.cfg.Log.Error("a run's timer changes nothing", "run", r.id().String(), "wake", r.wake.String())
		p.residents.wakes.set(r, p.now.Add(time.Second))
	}
}

// Cut takes the batch that is being filled, with a part of the view; nil: there is nothing to append. Batches are
// appended one after the other; Committed or Failed follows for each.
func (p *Partition) Cut(now core.Time) *journal.Batch {
	p.at(now)
	b := p.pipeline.cut(p.cfg.Partition, p.now, p.feeds.due(p.now, p.pipeline.view.flushing))
	if b != nil {
		b.Feeds = p.feeds.cut()
	}
	return b
}

// Pending returns how many entries are computed and not durable.
func (p *Partition) Pending() int { return p.pipeline.pending() }

// room reports whether more may be computed before something is durable.
func (p *Partition) room(inflight int) bool {
	l := &p.pipeline
	return l.open == nil || (l.pending() < inflight && len(l.open.blob)+len(l.open.mail) < batchBytes)
}

// Next returns when the partition wants a Tick or a Cut though nothing else happens; zero: never.
func (p *Partition) Next() core.Time {
	if p.residents.restored.len() > 0 {
		return p.now
	}
	at := earliest(p.pipeline.view.dueAt(p.pipeline.lastEntry), earliest(p.feeds.dueAt(), p.mail.due()))
	if r := p.residents.wakes.first(); r != nil {
		at = earliest(at, r.wake)
	}
	return earliest(at, p.residents.windowDue(p.now, p.cfg.Horizon))
}

// Flush makes every following Cut write rows until the view lacks nothing.
func (p *Partition) Flush() { p.pipeline.view.flushing = true }

// Probe makes the next Cut return a batch even if it is empty: it shows whether the journal takes writes again.
func (p *Partition) Probe() { p.pipeline.probing = true }

// Committed says that the oldest batch cut is durable: what waited for it happens.
func (p *Partition) Committed(now core.Time) {
	p.at(now)
	b := p.pipeline.committed()
	for i := range b.after {
		p.carryOut(&b.after[i])
	}
	for _, c := range b.calls {
		c.answer()
	}
	p.tellReceivers(b)
	p.audience.tellWatchers(b)
	p.audience.tellWaiters(b)
	p.feeds.committed(b, p.cfg.FeedLimit, p.now)
	for _, r := range b.viewed {
		r.written()
		p.residents.evict(r)
	}
	p.pipeline.recycle(b)
}

// carryOut does what waited for a batch.
func (p *Partition) carryOut(e *effect) {
	switch eff := e.eff.(type) {
	case core.Dispatch:
		p.tasks.give(eff.Task)
	case core.Revoke:
		p.tasks.revoke(core.Token{Run: e.run, Step: eff.Step, Attempt: eff.Attempt}, eff.Reason)
	case core.Closed:
		e.kind.Bodies.Forget(e.run)
		if r := p.residents.runs[e.run]; r != nil && r.aside == nil && r.state.WaitsForBody() {
			p.tellAll(r) // it was opened again before its end was durable
		}
	default:
	}
}

// Stats counts what the partition holds.
func (p *Partition) Stats() Stats {
	return Stats{
		Loaded: len(p.residents.runs), Queued: len(p.tasks.offers), Live: len(p.tasks.held), Seq: p.pipeline.durable,
		Behind: p.pipeline.view.behind.count, SetAside: len(p.residents.aside),
	}
}
