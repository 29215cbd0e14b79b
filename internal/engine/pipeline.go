package engine

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/limit"
	"github.com/pawl-dev/pawl/internal/journal"
)

const batchBytes = 1 << 20 // no more inputs are taken while the open batch is this large

// pipeline holds what is on its way to the journal: the open batch, the batches that were cut and are not durable yet,
// and what waits for each batch. It does not know what runs do.
type pipeline struct {
	epoch    uint64        // the owner's, carried by every batch; 0: this process does not own the partition
	term     time.Duration // how long the ownership lasts without an append or a renewal; 0: without end
	durable  uint64        // the last batch that is known to be durable
	open     *batch        // collects new entries; nil: the partition is not open
	inFlight ring[*batch]  // batches that were cut and are not durable yet, the oldest first
	spare    []*batch      // used batches, whose memory is reused
	probing  bool          // the next cut returns a batch even if it is empty

	encoded   func(core.RunID)           // a hook for tests, called after each entry that was encoded; else nil
	observes  bool                       // an observer is told of records
	stored    map[core.DefinitionID]bool // definitions that were sent to the journal
	lastEntry core.Time                  // when the last entry was made
	view      projection

	// Work that failed batches leave for the next Open:
	reports    []report // reports of workers, which are applied again
	revokes    []effect // Open carries out the revokes among them whose batch is on disk after all
	unnotified []int    // partitions to which messages may be on disk although they were not notified
}

// batch is one append, with everything that waits until it is durable.
type batch struct {
	seq             uint64
	blob            []byte // the encoded entries
	entries         int
	large           []journal.Large // the large entries in blob
	defs            []journal.Definition
	posted          []journal.Message // messages to other partitions
	encodedMessages []byte            // the bytes of the posted messages
	taken           []journal.Taken   // messages from other partitions
	documents       []journal.Document
	claimed         []startKey // the keys whose claims are among the documents
	view            journal.View
	viewed          []*run // the runs that have rows in the view part
	out             journal.Batch
	asked           *run // the run whose body got news last while this batch was open; nil if there is none
	timed           bool // a timer has fired in it

	// These wait until the batch is durable.
	after    []effect
	calls    []Call
	ended    []ended
	watched  []watched
	freed    []*limit.Ticket // places of runs that have ended
	observed []Observation

	reports []report // reports of workers to apply again if the batch fails
}

// mustSave reports whether the batch holds something that must be saved. Rows of the view could also wait.
func (b *batch) mustSave() bool { return b.entries+len(b.posted)+len(b.taken)+len(b.documents) > 0 }

// effect is an effect outside the partition, with the run that causes it.
type effect struct {
	run  core.RunID
	kind *Kind // the kind of the run's workflow
	eff  core.Effect
}

// ended is a run that closed in a batch. next is the next run of its chain, if there is one.
type ended struct {
	outcome Outcome
	next    core.RunID
}

// reset empties the batch and keeps its memory.
func (b *batch) reset() {
	clear(b.viewed)
	clear(b.after)
	clear(b.calls)
	clear(b.ended)
	clear(b.watched)
	clear(b.freed)
	clear(b.observed)
	clear(b.reports)
	clear(b.posted)
	clear(b.documents)
	clear(b.claimed)
	clear(b.view.Runs)
	clear(b.view.Steps)
	clear(b.view.Attempts)
	clear(b.view.History)
	v := b.view
	*b = batch{
		blob: b.blob[:0], large: b.large[:0],
		viewed: b.viewed[:0], after: b.after[:0], calls: b.calls[:0], ended: b.ended[:0],
		watched: b.watched[:0], freed: b.freed[:0], observed: b.observed[:0], reports: b.reports[:0],
		encodedMessages: b.encodedMessages[:0], posted: b.posted[:0], taken: b.taken[:0],
		documents: b.documents[:0], claimed: b.claimed[:0],
		view: journal.View{
			Runs: v.Runs[:0], Steps: v.Steps[:0], Attempts: v.Attempts[:0], History: v.History[:0], New: v.New[:0],
		},
	}
}

// forget drops all batches. It keeps what failed batches leave for the next Open.
func (l *pipeline) forget() {
	l.open, l.inFlight = nil, ring[*batch]{}
	l.stored = make(map[core.DefinitionID]bool)
	l.view.forget()
}

// begin opens the next batch.
func (l *pipeline) begin(seq uint64) {
	if n := len(l.spare); n > 0 {
		l.open, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		l.open = new(batch)
	}
	l.open.seq = seq
}

// transition is the result of one input to one run: an entry, which may have no records, and its effects.
type transition struct {
	run *run
	out core.Output
}

// add puts the entry of a transition into the open batch. If the transition ends a run whose chain goes on, next is the
// start of the next run, whose entry is put in as well; else next is nil. The error is a panic of the run's code. Then
// the batch has neither entry.
func (l *pipeline) add(t, next *transition, now core.Time) error {
	start, observed := len(l.open.blob), len(l.open.observed)
	middle, err := l.encode(t)
	if err == nil && next != nil {
		_, err = l.encode(next)
	}
	if err == nil {
		err = l.note(t, next)
	}
	if err != nil {
		l.open.blob, l.open.observed = l.open.blob[:start], l.open.observed[:observed]
		return err
	}
	l.keep(t.run, start, middle, now)
	if next != nil {
		l.keep(next.run, middle, len(l.open.blob), now)
	}
	return nil
}

// encode appends the entry of a transition to the open batch and returns where it ends.
func (l *pipeline) encode(t *transition) (end int, err error) {
	defer catchPanic("its entry was encoded", nil, &err)
	if e := &t.out.Entry; len(e.Records) > 0 {
		l.open.blob = core.AppendEntry(l.open.blob, e)
		if l.encoded != nil {
			l.encoded(e.Run)
		}
	}
	return len(l.open.blob), nil
}

// note notes which rows the entries of a transition and of the chain's next run change. It comes after both were
// encoded: otherwise rows of an unsaved entry would stay in the view.
func (l *pipeline) note(t, next *transition) (err error) {
	defer catchPanic("its rows were noted", nil, &err)
	for _, one := range []*transition{t, next} {
		if one != nil && len(one.out.Entry.Records) > 0 {
			one.run.rows.note(one.run.state, &one.out.Entry, l.observing(one.run, &one.out.Entry))
		}
	}
	return nil
}

// observing returns the function that keeps the records of an entry for an observer, or nil if there is none.
func (l *pipeline) observing(r *run, e *core.Entry) func(core.Record, *attempt) {
	if !l.observes {
		return nil
	}
	return func(rec core.Record, row *attempt) { l.observe(r, e, rec, row) }
}

// keep counts an entry of a run that was put into the open batch. The run keeps the same bytes for its history in the
// view, so that an entry is encoded only once.
func (l *pipeline) keep(r *run, start, end int, now core.Time) {
	if start == end {
		return // the input changed nothing
	}
	b := l.open
	b.entries++
	l.lastEntry = now
	l.view.markBehind(r, b.seq, end-start, now)
	if end-start >= journal.LargeEntry {
		b.large = append(b.large, journal.Large{Run: r.id(), Seq: b.seq, From: start, To: end})
	}
	r.addPending(b.seq, b.blob[start:end])
	r.noteRecorded()
}

// last returns the newest batch that holds an entry. It returns nil if all entries are durable. Answers to callers and
// tasks for workers wait for this batch, because they may be based on any entry so far.
func (l *pipeline) last() *batch {
	switch {
	case l.open.entries > 0:
		return l.open
	case l.inFlight.len() > 0:
		return l.inFlight.last()
	default:
		return nil
	}
}

// pending returns the number of entries that are not durable yet.
func (l *pipeline) pending() int {
	n := l.open.entries
	for _, b := range l.inFlight.all() {
		n += b.entries
	}
	return n
}

// hasRoom reports whether more inputs may be taken before the journal has caught up.
func (l *pipeline) hasRoom(inflight int) bool {
	return l.open == nil || (l.pending() < inflight && len(l.open.blob)+len(l.open.encodedMessages) < batchBytes)
}

// reply answers a call when everything that the answer may be based on is durable.
func (l *pipeline) reply(c Call) {
	if b := l.last(); b != nil {
		b.calls = append(b.calls, c)
	} else {
		c.answer()
	}
}

// replyOf answers a call about one run when that run's entries are durable. Those of other runs need not be.
func (l *pipeline) replyOf(r *run, c Call) {
	for _, b := range l.batches() {
		if b.seq == r.lastBatch {
			b.calls = append(b.calls, c)
			return
		}
	}
	c.answer()
}

// moves reports whether anything is on its way to the journal. Nothing is while the partition is not open.
func (l *pipeline) moves() bool {
	return l.inFlight.len() > 0 || l.open != nil && l.open.entries > 0
}

// batches returns the batches that are not durable yet, the open one last.
func (l *pipeline) batches() []*batch {
	if l.open == nil {
		return nil
	}
	return append(l.inFlight.all(), l.open)
}

// define stores a definition with the first batch that needs it.
func (l *pipeline) define(d *journal.Definition) {
	if d.Source == nil || l.stored[d.ID] {
		return
	}
	l.stored[d.ID] = true
	l.open.defs = append(l.open.defs, *d)
}

// keepReport keeps a report until its entry is durable. If the append fails, the report is applied again, so that
// finished work is not repeated.
func (l *pipeline) keepReport(rep report) { l.open.reports = append(l.open.reports, rep) }

// idle reports whether there is nothing to append now.
func (l *pipeline) idle(now core.Time) bool {
	if l.open.mustSave() || l.probing || l.view.flushing {
		return false
	}
	due := l.view.dueAt(l.lastEntry)
	return due == 0 || due > now
}

// cut closes the open batch, adds a part of the view and returns it. It returns nil if there is nothing to append. If
// positions of feeds must be stored, it returns a batch even if that is empty. due is when a run wakes next; zero:
// never.
func (l *pipeline) cut(partition int, now, due core.Time, feedPositions bool) *journal.Batch {
	if l.idle(now) && !feedPositions {
		return nil
	}
	b := l.open
	hurry := b.timed || due != 0 && due < now.Add(timerAhead)
	l.view.attach(b, partition, l.view.quota(b.entries, hurry, now), now)
	if !b.mustSave() && len(b.viewed) == 0 && !l.probing && !feedPositions {
		return nil
	}
	l.probing = false
	b.out = journal.Batch{
		Partition: partition, Epoch: l.epoch, Seq: b.seq, Encoded: b.blob, Large: b.large, Definitions: b.defs,
	}
	if len(b.posted)+len(b.taken) > 0 {
		b.out.Out, b.out.Taken = b.posted, b.taken
	}
	b.out.Documents = b.documents
	if len(b.viewed) > 0 {
		b.out.View = &b.view
	}
	l.inFlight.push(b)
	l.begin(b.seq + 1)
	return &b.out
}

// committed returns the oldest batch, which is durable now.
func (l *pipeline) committed() *batch {
	b := l.inFlight.pop()
	l.durable = b.seq
	return b
}

// recycle keeps a batch's memory for a later batch.
func (l *pipeline) recycle(b *batch) {
	b.reset()
	l.spare = append(l.spare, b)
}

// ring is a first-in first-out queue that keeps its memory.
type ring[T any] struct {
	items []T
	head  int
}

func (q *ring[T]) len() int { return len(q.items) - q.head }

// all returns the items in order. Appending to the result does not change the queue.
func (q *ring[T]) all() []T { return q.items[q.head:len(q.items):len(q.items)] }

func (q *ring[T]) first() T { return q.items[q.head] }

func (q *ring[T]) last() T { return q.items[len(q.items)-1] }

func (q *ring[T]) push(v T) { q.items = append(q.items, v) }

func (q *ring[T]) pop() T {
	v := q.items[q.head]
	var zero T
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}
