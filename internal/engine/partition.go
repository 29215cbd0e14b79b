package engine

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Partition is the engine without goroutines and without a clock. It holds the runs in memory, their wake times and
// task queues, and the batches that are on their way to the journal. It is not safe for concurrent use. Its driver,
// which is the loop of an Engine or the simulation,
//
//   - calls Open, and after it Handle, Report and Tick when something happens;
//   - takes a batch with Cut, appends it to the journal and calls Committed or Failed, one batch after the other;
//   - reads the runs that are due soon (Window, ReadWindow, Loaded, WindowDone), or calls Refill, which does it all;
//   - reads the messages of other partitions (Expect, Fetch, Fetched).
type Partition struct {
	*base
	messages // those from and to other partitions

	residents residents // the runs in memory
	tasks     tasks     // attempts that wait for a worker, and those that a worker executes
	pipeline  pipeline  // the batches that are not durable yet
	audience  audience  // callers that wait for runs, and watchers of them
	starts    starts    // makes runs for callers, and claims idempotency keys
	feeds     feeds     // the named consumers of all entries

	admissions admissions // the open runs of queues
	children   children   // the child runs that begin soon, and how many are open
	reception  reception  // receives the messages of other runs to those of this partition

	handling   handling // the state of the input being handled
	generation int      // the bodies' generation; it grows whenever the partition forgets its memory
}

// handling is the state of the input that the partition handles, which is a call, a report or a tick, for example.
type handling struct {
	todo     ring[localEffect] // effects inside the partition that must still join the open batch
	instants int               // attempts that took no time and that it has started
	ticking  bool              // no waiting attempt starts, because due work comes first
	decided  *run              // the run whose body made the current decisions; nil if they are no decisions of a body
}

// NewPartition returns a partition. It is ready after Open.
func NewPartition(cfg Config) *Partition {
	cfg = cfg.withDefaults()
	cfg.Matcher.StartLoad()
	return newPartition(cfg, newDefinitions(cfg.Journal, cfg.Kinds))
}

// newPartition returns a partition and tells the limiter that it is going to load its runs.
func newPartition(cfg Config, defs *definitions) *Partition {
	b := &base{cfg: cfg, defs: defs, partitions: cfg.Journal.PartitionCount()}
	p := &Partition{base: b, audience: newAudience()}
	h := heart{p}
	p.tasks = newTasks(b, h)
	p.residents.base = b
	p.messages = messages{base: b, heart: h, pipeline: &p.pipeline, receive: p.reception.receive}
	p.residents.audience = &p.audience
	p.admissions = admissions{
		base: b, heart: h, residents: &p.residents, tasks: &p.tasks, pipeline: &p.pipeline,
		limiter: cfg.Matcher.Limiter(), client: p.tasks.client, loading: true,
	}
	p.starts = starts{base: b, heart: h, residents: &p.residents, pipeline: &p.pipeline}
	p.children = children{base: b, heart: h, residents: &p.residents, pipeline: &p.pipeline}
	p.reception = reception{
		base: b, heart: h, residents: &p.residents, children: &p.children, starts: &p.starts, keep: p.messages.keep,
	}
	p.pipeline.observes = cfg.Observer.Recorded != nil
	p.pipeline.view.onPanic = func(r *run, err error) { _ = p.setAsideAfterPanic(r, err) }
	p.forget()
	return p
}

// forget empties the memory. It keeps the attempts that workers execute, and everyone who waits for a run or watches
// one.
func (p *Partition) forget() {
	p.residents.forget()
	p.tasks.forget()
	p.admissions.forget()
	p.pipeline.forget()
	p.messages.forget()
	p.children.forget(p.cfg.families)
	p.handling.todo, p.readErr = ring[localEffect]{}, nil
	p.residents.carried = p.cfg.Carried.count()
}

// Handle carries out a call. Its answer may come before Handle returns.
func (p *Partition) Handle(c Call, now core.Time) {
	p.at(now)
	c.do(p)
	p.settle()
	p.handling.decided = nil
}

// Report takes a worker's report. A report that comes too late changes nothing.
func (p *Partition) Report(id core.RunID, in core.Input, now core.Time) {
	p.at(now)
	rep := report{id, in}
	tok, over := rep.token()
	if over {
		p.pipeline.keepReport(rep)
	}
	if r, err := p.get(id); err == nil {
		_ = p.advance(r, nil, in)
	} else if !p.noteTemporary(err) {
		p.cfg.Log.Warn("a worker's report is ignored, because its run cannot be read", "run", id.String(), "error", err)
	}
	if over {
		p.tasks.release(tok)
	}
	p.settle()
	if p.pipeline.last() == nil && p.readErr == nil {
		// The run refused the report, and everything it did before is durable. So the report need not be kept.
		p.pipeline.open.reports = p.pipeline.open.reports[:0]
	}
}

// InputCall applies an operation or an event to a run.
type InputCall struct {
	saving[struct{}]
	Run   core.RunID
	Input core.Input
	Exact bool // it is for this run, and for no later one of its chain
}

func (c *InputCall) op() string {
	if op, ok := c.Input.(core.Operation); ok {
		return op.Op.String()
	}
	return "event send"
}

func (c *InputCall) do(p *Partition) {
	find := p.get
	if !c.Exact && forLastOfChain(c.Input) {
		find = p.current
	}
	r, err := find(c.Run)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		c.Err = notFound(c.op(), c.Run.String())
	case err != nil:
		c.Err = failure(c.op(), c.Run.String(), err)
	default:
		c.Err = c.giveTo(p, r)
	}
	p.pipeline.reply(c)
}

// giveTo gives the input to a run. If it opens the run again, others find the run by its workflow id again.
func (c *InputCall) giveTo(p *Partition, r *run) error {
	if err := p.residents.checkReopen(r, c.Input); err != nil {
		return err
	}
	closed := r.state.Phase.Closed()
	if err := p.advance(r, nil, c.Input); err != nil {
		return Refused(c.op(), c.Run, err)
	}
	p.residents.addNames(r)
	if closed && !r.state.Phase.Closed() {
		p.children.families.begins(r.state)
	}
	return nil
}

// forLastOfChain reports whether an input that names any run of a chain goes to the last run. Events do, and operations
// on the whole run, such as cancel or pause. An operation on one step, or the retry of a failed run, goes to the named
// run.
func forLastOfChain(in core.Input) bool {
	switch in := in.(type) {
	case core.SignalReceived, core.ExpectedSignal:
		return true
	case core.Operation:
		return in.Step == core.NoStep && in.Op != core.OpRetryRun
	default:
		return false
	}
}

// DoCall gives a run what its body and its tasks report. See Engine.Do.
type DoCall struct {
	telling
	Run    core.RunID
	Inputs []core.Input
	Body   *Body // the body that made the decisions among Inputs; nil if there are none

	spare bool // nobody uses the call after its answer
}

// doCalls are calls of Engine.Do that were answered.
var doCalls spares[DoCall, *DoCall]

func (c *DoCall) answer() {
	told := c.Reply
	if c.spare {
		doCalls.put(c)
	}
	told.answer()
}

func (c *DoCall) op() string {
	if c.Body == nil {
		return "report"
	}
	return "body"
}

func (c *DoCall) do(p *Partition) {
	r, err := p.get(c.Run)
	if err != nil {
		c.Err = failure(c.op(), c.Run.String(), err)
	}
	for _, in := range c.Inputs {
		rep := report{c.Run, in}
		tok, over := rep.token()
		if over {
			p.pipeline.keepReport(rep)
		}
		_, decided := in.(core.Commands)
		if decided && c.Err == nil {
			c.Err = c.checkStale(p.generation)
		}
		if r != nil && (over || c.Err == nil) {
			if err := p.advance(r, nil, in); err != nil && c.Err == nil {
				c.Err = Refused(c.op(), c.Run, err)
			}
		}
		if decided && c.Err == nil {
			p.handling.decided = r
		}
		if over {
			p.tasks.release(tok)
		}
	}
	if c.Err != nil && c.Body != nil {
		c.Body.Invalidate()
	}
	p.pipeline.reply(c)
}

// checkStale returns an error if the decisions of the body must not be taken, in that generation.
func (c *DoCall) checkStale(generation int) error {
	var why string
	switch {
	case c.Body.generation < generation:
		why = "the body began before the storage failed"
	case c.Body.stale.Load():
		why = "the body has acted on a result that was changed"
	default:
		return nil
	}
	return &Error{Code: CodeStale, Op: c.op(), ID: c.Run.String(), Err: errors.New(why)}
}

// tickRuns is how many runs one Tick advances at most, so that a batch does not become too large.
const tickRuns = 512

// Tick advances the runs that are due, in the order of their wake times. Then it recovers runs of the previous owner.
// It reports whether it stopped early because of tickRuns.
func (p *Partition) Tick(now core.Time) (more bool) {
	p.at(now)
	p.handling.ticking = true
	defer func() {
		p.handling.ticking = false
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
		p.takeOver(p.residents.restored.pop())
		p.settle()
	}
	p.admissions.finishLoad()
	p.children.beginDue()
	return p.tickLimits(tickRuns - n)
}

func (p *Partition) fire(r *run) {
	if r.unrecovered {
		p.recover(r)
	}
	before, due := r.state.Seq, r.wake
	_ = p.advance(r, nil, core.Tick{})
	if r.state.Seq != before {
		p.pipeline.open.timed = true
		p.residents.noteFired(r, due)
	}
	if r.wake != 0 && r.wake <= p.now && r.state.Seq == before {
		// The run is due, but the tick changed nothing. Without a pause this would repeat without end.
		p.cfg.Log.Error("a run is due, but nothing happens; trying again in a second", "id", "run-idle-though-due",
			"run", r.id().String(), "wake", r.wake.String())
		p.residents.wakes.set(r, p.now.Add(time.Second))
	}
}

// Cut closes the open batch, adds a part of the view and returns it. It returns nil if there is nothing to append. The
// driver appends one batch after the other and calls Committed or Failed for each.
func (p *Partition) Cut(now core.Time) *journal.Batch {
	p.at(now)
	if p.children.beginDue(); p.readErr != nil {
		return nil
	}
	b := p.pipeline.cut(p.cfg.Partition, p.now, p.residents.wakes.next(), p.feeds.due(p.now, p.pipeline.view.flushing))
	if b != nil {
		b.Feeds = p.feeds.cut()
	}
	return b
}

// Pending returns the number of entries that are not durable yet.
func (p *Partition) Pending() int { return p.pipeline.pending() }

// Next returns the instant at which the partition needs a Tick or a Cut even if nothing else happens. Zero means never.
func (p *Partition) Next() core.Time {
	if p.residents.restored.len() > 0 || p.children.unborn.due(p.pipeline.open) {
		return p.now
	}
	at := earliest(p.pipeline.view.dueAt(p.pipeline.lastEntry), earliest(p.feeds.dueAt(), p.messages.due()))
	at = earliest(at, p.residents.wakes.next())
	return earliest(earliest(at, p.limitsDue()), p.residents.windowDue(p.now, p.cfg.Horizon))
}

// Flush makes every following Cut write rows, until the view is complete.
func (p *Partition) Flush() { p.pipeline.view.flushing = true }

// Probe makes the next Cut return a batch even if it is empty. The driver appends it to find out whether the journal
// takes writes again.
func (p *Partition) Probe() { p.pipeline.probing = true }

// Committed notes that the oldest batch is durable. The partition carries out what waited for that batch.
func (p *Partition) Committed(now core.Time) {
	p.at(now)
	b := p.pipeline.committed()
	for i := range b.after {
		p.carryOut(&b.after[i])
	}
	for _, c := range b.calls {
		c.answer()
	}
	p.cfg.Observer.tell(b)
	p.messages.notifyReceivers(b)
	p.starts.committed(b)
	p.audience.tellWatchers(b)
	p.audience.tellWaiters(b)
	for _, t := range b.freed {
		p.admissions.limiter.Leave(t, p.now)
	}
	p.feeds.committed(b, p.cfg.FeedLimit, p.now)
	for _, r := range b.viewed {
		r.rowsWritten()
		p.residents.evict(r)
	}
	p.pipeline.recycle(b)
}

// carryOut carries out an effect whose batch is durable.
func (p *Partition) carryOut(e *effect) {
	switch eff := e.eff.(type) {
	case core.Dispatch:
		p.tasks.dispatch(eff.Task)
	case core.Revoke:
		p.tasks.revoke(core.Token{Run: e.run, Step: eff.Step, Attempt: eff.Attempt}, eff.Reason)
	case core.Closed:
		e.kind.Bodies.Forget(e.run)
		if r := p.residents.runs[e.run]; r != nil && r.aside == nil && r.state.WaitsForBody() {
			p.sendAllNews(r) // the run was opened again before its end was durable, so its body is needed again
		}
	default:
	}
}

// Stats counts what the partition holds.
func (p *Partition) Stats() Stats {
	return Stats{
		Loaded: len(p.residents.runs), Queued: len(p.tasks.offers), Live: len(p.tasks.held), Seq: p.pipeline.durable,
		Behind: p.pipeline.view.behind.count, SetAside: len(p.residents.aside), Late: p.residents.late,
		Wake: p.nextWake(), Next: p.Next(), Moving: p.pipeline.moves() ||
			p.residents.readingWindow || p.residents.restored.len() > 0,
	}
}

// nextWake returns when a run next does something on its own.
func (p *Partition) nextWake() core.Time {
	return earliest(earliest(p.residents.nextWake, p.limitsDue()), p.residents.wakes.next())
}

// takeTurns continues the attempts and runs whose turn it is.
func (p *Partition) takeTurns() {
	for _, t := range p.tasks.matcher.Limiter().Turns(p.tasks.client) {
		if t.IsRun() {
			p.admissions.takeTurn(t)
		} else {
			p.tasks.takeTurn(t)
		}
	}
}

// tickLimits offers the turns that are due by time, and records the new reasons of held attempts, at most that many. It
// reports whether there are more of them.
func (p *Partition) tickLimits(most int) (more bool) {
	if !p.limited() {
		return false
	}
	limiter, client := p.tasks.matcher.Limiter(), p.tasks.client
	limiter.Tick(client, p.now)
	if !client.Noted() {
		return false
	}
	for _, n := range limiter.Notices(client, max(most, 1)) {
		if n.IsRun() {
			p.admissions.notice(n)
		} else {
			p.tasks.notice(n)
		}
	}
	return client.Noted()
}

// limited reports whether limits of queues or services bound anything in the partition.
func (p *Partition) limited() bool { return p.tasks.tickets+len(p.admissions.tickets) > 0 }

// limitsDue returns the instant at which the limiter needs a Tick; zero: never.
func (p *Partition) limitsDue() core.Time {
	switch t := &p.tasks; {
	case !p.limited():
		return 0
	case t.client.Noted():
		return p.now
	default:
		return t.matcher.Limiter().NextDue()
	}
}
