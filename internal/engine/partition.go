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
//	reads the runs that come due (Window, ReadWindow, Loaded, WindowDone), or lets Refill do it.
type Partition struct {
	cfg  Config
	defs *definitions
	ctx  context.Context // of reads of the journal

	generation int // of the bodies: how often the memory was forgotten

	now       core.Time // never runs backwards
	lastEntry core.Time
	epoch     uint64
	durable   uint64 // the last batch known to be on disk
	unread    error  // why a run that something happens to could not be read; see missed
	total     int64  // bytes of entries so far

	runs     map[core.RunID]*run
	broken   map[core.RunID]error    // runs of the tail that cannot be restored
	heard    map[core.RunID]struct{} // runs known to be carried on here; see unheard
	hold     uint64                  // the first batch with an entry of theirs; the view does not pass it. 0: none
	byName   map[string]core.RunID   // open runs in memory by the workflow id their caller chose
	byKey    map[string]core.RunID   // runs in memory by idempotency key
	wakes    wakes
	behind   behind
	ripe     ring[*run]
	visited  []*run              // loaded by the input at hand
	lost     ring[*run]          // restored at open, still to be recovered
	alive    map[core.Token]bool // attempts that outlived the partition's memory
	stored   map[core.DefinitionID]bool
	riding   bool // rows ride in the batches until none is left
	flushing bool
	ticking  bool // what is due comes before what waits for a worker
	probing  bool

	todo    ring[errand]
	queues  map[queueKey]*taskQueue
	offers  map[core.Token]*offered
	order   uint64
	matches []*taskQueue
	held    map[core.Token]hold

	open     *batch
	flight   ring[*batch]
	spare    []*batch
	kept     []report // to be applied again after Open
	revokes  []effect // of batches that failed
	waiters  map[core.RunID][]*Waiter
	watchers map[core.RunID][]*Watcher

	window  Window
	reading bool
	gone    map[core.RunID]struct{} // runs that left memory while a window is read
	far     core.Time               // the first wake known beyond the window; 0: none
}

// batch is an append with what waits for it.
type batch struct {
	seq     uint64
	blob    []byte
	entries int
	defs    []journal.Definition
	view    journal.View
	viewed  []*run

	after   []effect
	calls   []*Call
	ended   []ended
	watched []watched
	reports []report
	out     journal.Batch
}

// effect is a machine's effect on the world outside, and whose.
type effect struct {
	run  core.RunID
	kind *Kind // of the run's workflow
	eff  core.Effect
}

// ended is a run that closed in a batch.
type ended struct {
	outcome Outcome
	next    core.RunID
}

func (b *batch) reset() {
	clear(b.viewed)
	clear(b.after)
	clear(b.calls)
	clear(b.ended)
	clear(b.watched)
	clear(b.reports)
	clear(b.view.Runs)
	clear(b.view.Steps)
	clear(b.view.Attempts)
	clear(b.view.History)
	v := b.view
	*b = batch{
		blob: b.blob[:0], viewed: b.viewed[:0], after: b.after[:0], calls: b.calls[:0], ended: b.ended[:0],
		watched: b.watched[:0], reports: b.reports[:0],
		view: journal.View{Runs: v.Runs[:0], Steps: v.Steps[:0], Attempts: v.Attempts[:0], History: v.History[:0]},
	}
}

// NewPartition returns a partition that Open makes ready.
func NewPartition(cfg Config) *Partition {
	cfg = cfg.withDefaults()
	return newPartition(cfg, newDefinitions(cfg.Journal, cfg.Kinds))
}

func newPartition(cfg Config, defs *definitions) *Partition {
	p := &Partition{
		cfg: cfg, defs: defs, queues: make(map[queueKey]*taskQueue), held: make(map[core.Token]hold),
		waiters: make(map[core.RunID][]*Waiter), watchers: make(map[core.RunID][]*Watcher),
	}
	p.forget()
	return p
}

// forget empties the memory. What workers hold, who waits and who watches stays.
func (p *Partition) forget() {
	p.runs = make(map[core.RunID]*run)
	p.broken, p.hold = make(map[core.RunID]error), 0
	p.heard = make(map[core.RunID]struct{})
	p.byName, p.byKey = make(map[string]core.RunID), make(map[string]core.RunID)
	p.stored = make(map[core.DefinitionID]bool)
	p.offers = make(map[core.Token]*offered)
	p.wakes, p.behind, p.ripe, p.lost = wakes{}, behind{}, ring[*run]{}, ring[*run]{}
	p.todo, p.matches, p.visited = ring[errand]{}, nil, nil
	for _, q := range p.queues {
		q.waiting, q.listed = nil, false
	}
	p.flight, p.total = ring[*batch]{}, 0
	p.window = Window{gen: p.window.gen + 1}
	p.reading, p.gone, p.far = false, nil, 0
	p.unread = nil
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
	}
	p.settle()
}

// Report takes a worker's report. One that comes too late changes nothing.
func (p *Partition) Report(id core.RunID, in core.Input, now core.Time) {
	p.at(now)
	rep := report{id, in}
	tok, over := rep.token()
	if over {
		p.remember(rep)
	}
	if r, err := p.get(id); err == nil {
		_ = p.advance(r, nil, in)
	} else if !p.missed(err) {
		p.cfg.Log.Warn("a report for a run that cannot be read", "run", id.String(), "error", err)
	}
	if over {
		p.release(tok)
	}
	p.settle()
	if p.open.entries == 0 && p.flight.len() == 0 && p.unread == nil {
		p.open.reports = p.open.reports[:0] // refused, and on what is durable
	}
}

// remember keeps a report until what it did is durable, so that finished work is not repeated after a failed append.
func (p *Partition) remember(rep report) {
	p.open.reports = append(p.open.reports, rep)
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
		p.name(r) // it may have been opened again
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
	switch {
	case p.open.entries > 0:
		p.open.calls = append(p.open.calls, c)
	case p.flight.len() > 0:
		last := p.flight.items[len(p.flight.items)-1]
		last.calls = append(last.calls, c)
	default:
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
	for r := p.wakes.first(); r != nil && r.wake <= p.now; r = p.wakes.first() {
		if n++; n > tickRuns {
			return true
		}
		p.fire(r)
		p.settle()
	}
	for p.lost.len() > 0 {
		if n++; n > tickRuns {
			return true
		}
		p.recover(p.lost.pop())
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
		p.wakes.set(r, p.now.Add(time.Second))
	}
}

// Cut takes the batch that is being filled, with a part of the view; nil: there is nothing to append. Batches are
// appended one after the other; Committed or Failed follows for each.
func (p *Partition) Cut(now core.Time) *journal.Batch {
	p.at(now)
	b := p.open
	if b.entries == 0 && !p.probing && !p.flushing {
		if due := p.viewDue(); due == 0 || due > p.now {
			return nil
		}
	}
	n := p.quota(b.entries)
	if p.flushing {
		n = 1024
	}
	p.attach(b, n)
	if b.entries == 0 && len(b.viewed) == 0 && !p.probing {
		return nil
	}
	p.probing = false
	b.out = journal.Batch{
		Partition: p.cfg.Partition, Epoch: p.epoch, Seq: b.seq, Encoded: b.blob, Definitions: b.defs,
	}
	if len(b.viewed) > 0 {
		b.out.View = &b.view
	}
	p.flight.push(b)
	p.beginBatch(b.seq + 1)
	return &b.out
}

// beginBatch opens the next batch.
func (p *Partition) beginBatch(seq uint64) {
	if n := len(p.spare); n > 0 {
		p.open, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		p.open = new(batch)
	}
	p.open.seq = seq
}

// Pending returns how many entries are computed and not durable.
func (p *Partition) Pending() int {
	n := p.open.entries
	for _, b := range p.flight.items[p.flight.head:] {
		n += b.entries
	}
	return n
}

// Next returns when the partition wants a Tick or a Cut though nothing else happens; zero: never.
func (p *Partition) Next() core.Time {
	if p.lost.len() > 0 {
		return p.now
	}
	at := p.viewDue()
	if r := p.wakes.first(); r != nil {
		at = earliest(at, r.wake)
	}
	if !p.reading {
		at = earliest(at, p.windowDue())
	}
	return at
}

// Flush makes every following Cut write rows until the view lacks nothing.
func (p *Partition) Flush() { p.flushing = true }

// Probe makes the next Cut return a batch even if it is empty: it shows whether the journal takes writes again.
func (p *Partition) Probe() { p.probing = true }

// Committed says that the oldest batch cut is durable: what waited for it happens.
func (p *Partition) Committed(now core.Time) {
	p.at(now)
	b := p.flight.pop()
	p.durable = b.seq
	for i := range b.after {
		p.carryOut(&b.after[i])
	}
	for _, c := range b.calls {
		c.answer()
	}
	p.tellWatchers(b)
	p.tellWaiters(b)
	p.written(b)
	b.reset()
	p.spare = append(p.spare, b)
}

// carryOut does what waited for a batch.
func (p *Partition) carryOut(e *effect) {
	switch eff := e.eff.(type) {
	case core.Dispatch:
		if h, ok := p.held[eff.Task.Token]; ok {
			h.given = true
			p.held[eff.Task.Token] = h
			p.cfg.Workers.Dispatch(eff.Task)
		}
	case core.Revoke:
		p.cfg.Workers.Revoke(core.Token{Run: e.run, Step: eff.Step, Attempt: eff.Attempt}, eff.Reason)
	case core.Closed:
		e.kind.Bodies.Forget(e.run)
		if r := p.runs[e.run]; r != nil && r.state.Owed() {
			p.tellAll(r) // it was opened again before its end was durable
		}
	default:
	}
}

// Stats counts what the partition holds.
func (p *Partition) Stats() Stats {
	return Stats{Loaded: len(p.runs), Queued: len(p.offers), Live: len(p.held), Seq: p.durable, Behind: p.behind.count}
}
