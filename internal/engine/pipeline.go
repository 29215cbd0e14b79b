package engine

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// pipeline is what is on its way to the journal: the batch that is being filled, those that were cut and are not durable
// yet, and what waits for each of them. It knows nothing of what a run does.
type pipeline struct {
	epoch   uint64        // of the partition's owner, carried by every batch; 0: the partition was never owned
	term    time.Duration // how long the ownership lasts without a sign of life; 0: it does not end so
	durable uint64        // the last batch known to be on disk
	open    *batch        // is being filled; nil: the partition is not open
	flight  ring[*batch]
	spare   []*batch // used batches, whose memory the next ones take
	probing bool     // the next cut returns a batch even where it is empty

	encoded   func(core.RunID)           // called after an entry was encoded; tests panic in it. nil: nobody is
	stored    map[core.DefinitionID]bool // definitions that were sent to the journal
	lastEntry core.Time
	view      projection

	// Of batches that failed, for the next Open.
	reports []report // workers' reports, to be applied again
	revokes []effect // what was to be stopped
	untold  []int    // partitions that may have been sent messages, and were not told
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
	mail    []byte            // the messages that are posted, encoded
	posted  []journal.Message // to other partitions
	taken   []journal.Taken   // from other partitions
	out     journal.Batch
}

// full reports whether there is something that has to be saved.
func (b *batch) full() bool { return b.entries+len(b.posted)+len(b.taken) > 0 }

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
	clear(b.posted)
	clear(b.view.Runs)
	clear(b.view.Steps)
	clear(b.view.Attempts)
	clear(b.view.History)
	v := b.view
	*b = batch{
		blob: b.blob[:0], viewed: b.viewed[:0], after: b.after[:0], calls: b.calls[:0], ended: b.ended[:0],
		watched: b.watched[:0], reports: b.reports[:0], mail: b.mail[:0], posted: b.posted[:0], taken: b.taken[:0],
		view: journal.View{Runs: v.Runs[:0], Steps: v.Steps[:0], Attempts: v.Attempts[:0], History: v.History[:0]},
	}
}

// forget drops all batches. What failed batches leave for the next Open stays.
func (l *pipeline) forget() {
	l.open, l.flight = nil, ring[*batch]{}
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

// turn is what one input made of a run: an entry, which may have no records, and its effects.
type turn struct {
	run *run
	out core.Output
}

// add puts the entry of a turn into the open batch, and that of the run which follows in the chain; nil: none does. It puts
// in both or none: the error is a panic of the run's code.
func (l *pipeline) add(t, next *turn, now core.Time) error {
	start := len(l.open.blob)
	middle, err := l.encode(t)
	if err == nil && next != nil {
		_, err = l.encode(next)
	}
	if err != nil {
		l.open.blob = l.open.blob[:start]
		return err
	}
	l.keep(t.run, start, middle, now)
	if next != nil {
		l.keep(next.run, middle, len(l.open.blob), now)
	}
	return nil
}

// encode appends a turn's entry to the open batch and returns where it ends.
func (l *pipeline) encode(t *turn) (end int, err error) {
	defer catchPanic("its entry was encoded", nil, &err)
	if e := &t.out.Entry; len(e.Records) > 0 {
		l.open.blob = core.AppendEntry(l.open.blob, e)
		t.run.rows.note(t.run.state, e)
		if l.encoded != nil {
			l.encoded(e.Run)
		}
	}
	return len(l.open.blob), nil
}

// keep counts a run's entry, which stands in the open batch. It is encoded once: the same bytes become the run's history.
func (l *pipeline) keep(r *run, start, end int, now core.Time) {
	if start == end {
		return // the input changed nothing
	}
	b := l.open
	b.entries++
	l.lastEntry = now
	l.view.markBehind(r, b.seq, end-start, now)
	r.addPending(b.seq, b.blob[start:end])
	r.noteRecorded()
}

// last returns the youngest batch that holds anything; nil: all there was is durable. What a caller is told, and what a
// worker is to do, waits for it.
func (l *pipeline) last() *batch {
	switch {
	case l.open.entries > 0:
		return l.open
	case l.flight.len() > 0:
		return l.flight.last()
	default:
		return nil
	}
}

// pending returns how many entries are computed and not durable.
func (l *pipeline) pending() int {
	n := l.open.entries
	for _, b := range l.flight.all() {
		n += b.entries
	}
	return n
}

// batches returns those in flight and the open one, in order.
func (l *pipeline) batches() []*batch {
	if l.open == nil {
		return nil
	}
	return append(l.flight.all(), l.open)
}

// define stores a definition with the first batch that needs it.
func (l *pipeline) define(d *journal.Definition) {
	if d.Source == nil || l.stored[d.ID] {
		return
	}
	l.stored[d.ID] = true
	l.open.defs = append(l.open.defs, *d)
}

// remember keeps a report until what it did is durable, so that finished work is not repeated after a failed append.
func (l *pipeline) remember(rep report) { l.open.reports = append(l.open.reports, rep) }

// idle reports whether there is nothing to append for now.
func (l *pipeline) idle(now core.Time) bool {
	if l.open.full() || l.probing || l.view.flushing {
		return false
	}
	due := l.view.dueAt(l.lastEntry)
	return due == 0 || due > now
}

// cut takes the open batch with a part of the view; nil: there is nothing to append. marks says that positions of feeds are
// to be stored, in an empty batch if need be.
func (l *pipeline) cut(partition int, now core.Time, marks bool) *journal.Batch {
	if l.idle(now) && !marks {
		return nil
	}
	b := l.open
	l.view.attach(b, partition, l.view.quota(b.entries, now), now)
	if !b.full() && len(b.viewed) == 0 && !l.probing && !marks {
		return nil
	}
	l.probing = false
	b.out = journal.Batch{Partition: partition, Epoch: l.epoch, Seq: b.seq, Encoded: b.blob, Definitions: b.defs}
	if len(b.posted)+len(b.taken) > 0 {
		b.out.Out, b.out.Taken = b.posted, b.taken
	}
	if len(b.viewed) > 0 {
		b.out.View = &b.view
	}
	l.flight.push(b)
	l.begin(b.seq + 1)
	return &b.out
}

// committed takes the oldest batch out of the flight: it is durable.
func (l *pipeline) committed() *batch {
	b := l.flight.pop()
	l.durable = b.seq
	return b
}

// recycle keeps a batch's memory for a later one.
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

// all returns what is in the queue, in order. Appending to it does not change the queue.
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
