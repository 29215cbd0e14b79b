package engine

import (
	"bytes"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// These constants determine how the view follows the journal. The view may be late, since recovery replays the
// journal's tail. But it must keep up on average, and it must never delay a commit for long.
const (
	// settleAge is how long the view waits for an active run. A run that ends within it is written only once.
	settleAge = time.Second
	// manyBehind is the number of runs from which the view waits longer for active ones, in proportion to their number
	// and up to maxSettle. The more runs share the processor, the longer each takes. With 4,096 at once, most took
	// longer than settleAge and were written several times, which cost more than all else that was done for them.
	manyBehind = 256
	maxSettle  = 10 * time.Second
	// quietAge is how long the partition must have recorded nothing before rows get a batch of their own.
	quietAge = 20 * time.Millisecond
	// Rows join the batches once gatherRuns runs wait, or once one has waited for gatherAge. They then join until
	// none is left. So a few commits carry many rows, and most carry none.
	gatherAge  = 200 * time.Millisecond
	gatherRuns = 64
	// fewRuns is how many runs join a small commit, so that it stays quick.
	fewRuns = 2
	// Rows wait while a timer that has fired is saved, and from timerAhead before the next one is due: they would make
	// its commit, or the one that it waits for, take longer. Once manySettled runs wait, or one has waited for
	// maxSettle, they join all the same: timers may fire all the time.
	timerAhead  = 500 * time.Microsecond
	manySettled = 256
	// idleRuns is how many runs are written in a commit of their own. Inputs that arrive meanwhile wait for it.
	idleRuns = 32
	// flushRuns is how many runs one batch takes when the engine ends.
	flushRuns = 1024
	// tailSoft and tailHard are sizes of the part of the journal that the view does not have. At each of these numbers,
	// the view begins to take more rows per batch.
	tailSoft = 8 << 20
	tailHard = 32 << 20
	// viewBytes bounds the histories in one batch.
	viewBytes = 1 << 20
)

// projection decides which rows of the view are written with which batch.
type projection struct {
	behind   behindList        // runs of which the view does not have everything
	settled  ring[*run]        // those of them to which nothing will happen soon: they are written first
	urgent   []*run            // runs whose rows the next batch must take
	taken    []taken           // space for the runs whose rows a batch takes
	joining  bool              // rows join the batches until none is left
	flushing bool              // every batch takes rows until none is left, because the engine ends
	total    int64             // bytes of entries so far
	onPanic  func(*run, error) // sets a run aside whose rows cannot be made

	// keepFrom is the first batch with an entry of a run that was set aside; 0 if there is none. The watermark stays
	// below it, because the journal deletes batches up to the watermark.
	keepFrom uint64
}

// forget drops all runs, after a failed append.
func (v *projection) forget() {
	*v = projection{joining: v.joining, flushing: v.flushing, onPanic: v.onPanic}
}

// markBehind notes that a batch has an entry of a run, of size bytes, which the view does not have.
func (v *projection) markBehind(r *run, seq uint64, size int, now core.Time) {
	if r.firstPending == 0 {
		r.firstPending, r.pendingSince, r.pendingOffset = seq, now, v.total
		v.behind.push(r)
	}
	v.total += int64(size)
}

// keepTailFrom keeps the journal from a batch on. A run that is set aside has an entry there, and a later start
// needs it.
func (v *projection) keepTailFrom(seq uint64) {
	if v.keepFrom == 0 || seq < v.keepFrom {
		v.keepFrom = seq
	}
}

// noteSettled lists a run as ready to be written if nothing will happen to it for a while.
func (v *projection) noteSettled(r *run, now core.Time) {
	if !r.inSettled && settled(r, now) {
		r.inSettled = true
		v.settled.push(r)
	}
}

// settled reports whether nothing will happen to a run for a while, so that writing it now is not wasted.
func settled(r *run, now core.Time) bool {
	if r.aside != nil || r.state.Phase.Closed() {
		return true
	}
	return r.state.Idle() && (r.wake == 0 || r.wake > now.Add(settleAge))
}

// quota returns how many runs' rows may join a batch with that many entries. A timer may be in a hurry: it has fired in
// the batch, or is due in a moment.
func (v *projection) quota(entries int, hurry bool, now core.Time) int {
	head := v.behind.head
	if head == nil {
		return 0
	}
	gathered := v.settled.len() >= gatherRuns || now >= head.pendingSince.Add(gatherAge)
	v.joining = gathered || (v.joining && v.settled.len() > 0)
	tail := v.total - head.pendingOffset
	switch {
	case v.flushing:
		return flushRuns
	case tail > tailHard:
		return 2048
	case tail > tailSoft:
		return 2*entries + 256
	case entries == 0 && hurry:
		return fewRuns // none would leave the view unchanged, and the loop would try again at once
	case entries == 0:
		return idleRuns
	case !v.joining, hurry && v.settled.len() < manySettled && now < head.pendingSince.Add(maxSettle):
		return 0
	default:
		return entries + fewRuns
	}
}

// dueAt returns when rows get a batch of their own if no other batch comes first; zero: there is nothing to write.
func (v *projection) dueAt(lastEntry core.Time) core.Time {
	head := v.behind.head
	if head == nil {
		return 0
	}
	if len(v.urgent) > 0 {
		return head.pendingSince
	}
	quiet := lastEntry.Add(quietAge)
	if v.settled.len() > 0 {
		return quiet
	}
	return max(quiet, head.pendingSince.Add(settleAge))
}

// patience returns how long the view waits for an active run whose rows would join a batch with that many entries. A
// batch without entries has time for them.
func (v *projection) patience(entries int) time.Duration {
	if entries == 0 {
		return settleAge
	}
	return min(max(settleAge, settleAge*time.Duration(v.behind.count)/manyBehind), maxSettle)
}

// attach puts the rows of up to n runs into the batch.
func (v *projection) attach(b *batch, partition, n int, now core.Time) {
	size := v.takeUrgent(b)
	aged := now.Add(-v.patience(b.entries))
	var kept []*run
	for n > 0 && size < viewBytes {
		r := v.behind.head
		hurry := r != nil && !r.keptFrom(b) &&
			(r.pendingSince <= aged || v.total-r.pendingOffset > tailSoft || v.flushing)
		if !hurry {
			if r = v.nextSettled(now); r == nil {
				break
			}
			if r.keptFrom(b) {
				kept = append(kept, r)
				continue
			}
		}
		size += v.take(r)
		n--
	}
	for _, r := range kept {
		r.inSettled = true
		v.settled.push(r)
	}
	v.trim()
	v.writeTaken(b, partition)
	if len(b.viewed) == 0 {
		return
	}
	b.view.Through = b.seq
	if head := v.behind.head; head != nil {
		b.view.Through = head.firstPending - 1
	}
	if v.keepFrom != 0 {
		b.view.Through = min(b.view.Through, v.keepFrom-1)
	}
}

// trim removes runs from the front of the settled list that were written already. Otherwise the list would keep them
// in memory.
func (v *projection) trim() {
	for v.settled.len() > 0 && v.settled.first().firstPending == 0 {
		v.settled.pop().inSettled = false
	}
}

// nextSettled takes the next run off the settled list that still has to be written, or nil if there is none.
func (v *projection) nextSettled(now core.Time) *run {
	for v.settled.len() > 0 {
		r := v.settled.pop()
		r.inSettled = false
		if r.firstPending != 0 && settled(r, now) {
			return r
		}
	}
	return nil
}

// takeUrgent takes the runs whose rows cannot wait.
func (v *projection) takeUrgent(b *batch) (size int) {
	var later []*run
	for _, r := range v.urgent {
		switch {
		case r.keptFrom(b):
			later = append(later, r)
		case r.firstPending != 0:
			size += v.take(r)
		}
	}
	v.urgent = later
	return size
}

// taken is a run whose rows join the open batch.
type taken struct {
	run   *run
	first uint64 // its firstPending before
}

// take chooses a run whose rows join the open batch. It returns the size of its entries.
func (v *projection) take(r *run) (size int) {
	v.behind.remove(r)
	v.taken = append(v.taken, taken{r, r.firstPending})
	r.firstPending = 0
	return len(r.pending.bytes)
}

// writeTaken puts the rows of the runs that were taken into the batch. They are in the order of the tables, which fills
// pages from their beginning to their end and is quicker than to put rows between others.
func (v *projection) writeTaken(b *batch, partition int) {
	slices.SortFunc(v.taken, func(a, b taken) int {
		x, y := a.run.id(), b.run.id()
		return bytes.Compare(x[:], y[:])
	})
	for _, t := range v.taken {
		v.write(b, partition, t)
	}
	clear(v.taken)
	v.taken = v.taken[:0]
}

// keptFrom reports whether the rows of a run must not be in the batch: it started a child run there that begins with
// the next batch, and if that one is not saved, the next owner looks for the start in the journal's tail.
func (r *run) keptFrom(b *batch) bool {
	return r.startsChildIn == b.seq && r.startsChildIn != 0 && r.aside == nil
}

// write puts a run's rows and entries into the batch. If making the rows panics, the run is set aside. Then all its
// rows are written that can be made, and its own row has the reason why it is stopped.
func (v *projection) write(b *batch, partition int, t taken) {
	to, r := &b.view, t.run
	// The old value stays until the rows are written: a run that is set aside is not behind again.
	r.firstPending = t.first
	if r.aside == nil {
		runs, steps, attempts, fresh := len(to.Runs), len(to.Steps), len(to.Attempts), len(to.New)
		if err := guard("its rows were written", func() { r.writeRows(to, partition, b.seq) }); err != nil {
			to.Runs, to.Steps, to.Attempts = to.Runs[:runs], to.Steps[:steps], to.Attempts[:attempts]
			to.New = to.New[:fresh]
			r.rows.made = append(r.rows.made, r.rows.makeSteps(r.state)...)
			v.onPanic(r, err)
		}
	}
	if r.aside != nil {
		r.writeRows(to, partition, b.seq)
	}
	if p := &r.pending; len(p.bytes) > 0 {
		row := journal.HistoryRow{Run: r.id(), Seq: r.firstPending, Entries: p.bytes, Large: p.large}
		to.History = append(to.History, row)
	}
	r.writing = append(r.writing, r.pending)
	r.pending = Piece{}
	r.firstPending = 0
	b.viewed = append(b.viewed, r)
}

// writeRows appends the run's row and the rows of its steps and attempts that have changed.
func (r *run) writeRows(to *journal.View, partition int, seq uint64) {
	to.Runs = append(to.Runs, r.row(partition, seq))
	if !r.rows.stored && r.aside == nil {
		to.New = append(to.New, r.id())
	}
	r.rows.moveTo(r.state, to)
}

// eachBehind calls fn with each run whose current row is not durable in the view.
func (l *pipeline) eachBehind(fn func(*run)) {
	for _, b := range l.inFlight.all() {
		for _, r := range b.viewed {
			if r.firstPending == 0 {
				fn(r)
			}
		}
	}
	for r := l.view.behind.head; r != nil; r = r.next {
		fn(r)
	}
}

// behindList is the list of runs of which the view does not have everything, ordered by the first batch that it does
// not have.
type behindList struct {
	head, tail *run
	count      int
}

func (l *behindList) push(r *run) {
	r.prev, r.next = l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
	l.count++
}

func (l *behindList) remove(r *run) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	l.count--
}

// earliest returns the earlier of two instants. Zero means never.
func earliest(a, b core.Time) core.Time {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
