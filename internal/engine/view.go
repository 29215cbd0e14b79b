package engine

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// What governs how the view follows the journal. It may lag, since recovery replays the journal's tail, but it must
// keep up on average and never hold up a commit for long.
const (
	// settleAge is how long an active run may be missing from the view: a run that ends before is written once.
	settleAge = time.Second
	// quietAge is how long the partition must have recorded nothing before rows are written on their own.
	quietAge = 20 * time.Millisecond
	// gatherAge and gatherRuns say when rows begin to ride, until none is left: now and then rather than in every commit.
	gatherAge  = 200 * time.Millisecond
	gatherRuns = 64
	// fewRuns ride in a commit that is small itself, so that it stays quick.
	fewRuns = 8
	// idleRuns are written in a commit of their own. What arrives meanwhile waits for it.
	idleRuns = 32
	// tailSoft and tailHard are sizes of the journal that the view lacks, from which on it hurries.
	tailSoft = 8 << 20
	tailHard = 32 << 20
	// viewBytes bounds the histories in one batch.
	viewBytes = 1 << 20
)

// behind is the list of runs the view lacks something of, in the order of the first batch it lacks.
type behind struct {
	head, tail *run
	count      int
}

func (l *behind) push(r *run) {
	r.prev, r.next = l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
	l.count++
}

func (l *behind) remove(r *run) {
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

// ripen lists a run as worth writing: nothing will happen to it for a while.
func (p *Partition) ripen(r *run) {
	if !r.ripe && p.settled(r) {
		r.ripe = true
		p.ripe.push(r)
	}
}

func (p *Partition) settled(r *run) bool {
	if r.state.Phase.Closed() {
		return true
	}
	return r.state.Idle() && (r.wake == 0 || r.wake > p.now.Add(settleAge))
}

// quota is how many runs' rows a batch with that many entries carries.
func (p *Partition) quota(entries int) int {
	if p.behind.count == 0 {
		return 0
	}
	head := p.behind.head
	tail := p.total - head.offset
	gathered := p.ripe.len() >= gatherRuns || p.now >= head.since.Add(gatherAge)
	p.riding = p.behind.count > 0 && (gathered || (p.riding && p.ripe.len() > 0))
	switch {
	case tail > tailHard:
		return 2048
	case tail > tailSoft:
		return 2*entries + 256
	case entries == 0:
		return idleRuns
	case !p.riding:
		return 0
	default:
		return entries + fewRuns
	}
}

// viewDue returns when rows are to be written without waiting for another batch to ride in; zero: nothing to write.
func (p *Partition) viewDue() core.Time {
	head := p.behind.head
	if head == nil {
		return 0
	}
	quiet := p.lastEntry.Add(quietAge)
	if p.ripe.len() > 0 {
		return quiet
	}
	return max(quiet, head.since.Add(settleAge))
}

// attach lets up to n runs' rows ride in the batch.
func (p *Partition) attach(b *batch, n int) {
	v := &b.view
	bytes := 0
	aged := p.now.Add(-settleAge)
	for n > 0 && bytes < viewBytes {
		r := p.behind.head
		hurry := r != nil && (r.since <= aged || p.total-r.offset > tailSoft || p.flushing)
		if !hurry {
			if r = p.nextRipe(); r == nil {
				break
			}
		}
		bytes += p.write(b, r)
		n--
	}
	p.trim()
	if len(b.viewed) == 0 {
		return
	}
	v.Through = b.seq
	if head := p.behind.head; head != nil {
		v.Through = head.first - 1
	}
	if p.hold != 0 {
		v.Through = min(v.Through, p.hold-1)
	}
}

// trim drops runs from the front of the ripe that were written out of turn, so that the list does not keep them alive.
func (p *Partition) trim() {
	for p.ripe.len() > 0 && p.ripe.items[p.ripe.head].first == 0 {
		p.ripe.pop().ripe = false
	}
}

// nextRipe takes the next run that is worth writing still; nil: none.
func (p *Partition) nextRipe() *run {
	for p.ripe.len() > 0 {
		r := p.ripe.pop()
		r.ripe = false
		if r.first != 0 && p.settled(r) {
			return r
		}
	}
	return nil
}

// write puts a run's rows and entries into the batch and returns the bytes of the entries.
func (p *Partition) write(b *batch, r *run) int {
	v := &b.view
	v.Runs = append(v.Runs, r.row(p.cfg.Partition, b.seq))
	r.rows.take(r.state, v)
	size := len(r.pending.bytes)
	v.History = append(v.History, journal.HistoryRow{Run: r.id(), Seq: r.first, Entries: r.pending.bytes})
	r.writing = append(r.writing, r.pending)
	r.pending = Piece{}
	r.first = 0
	p.behind.remove(r)
	b.viewed = append(b.viewed, r)
	return size
}

// written marks the rows of a batch that has become durable; runs that need no memory leave it.
func (p *Partition) written(b *batch) {
	for _, r := range b.viewed {
		r.writing = r.writing[1:]
		if len(r.writing) == 0 {
			r.writing = nil
		}
		p.evict(r)
	}
}

// evict drops a run from memory if the view knows all of it and nothing is due soon.
func (p *Partition) evict(r *run) {
	// Work that still stops belongs to its run also after the run's end: a retry has to know of it.
	if !r.clean() || r.lost || r.state.Live() > 0 || p.runs[r.id()] != r {
		return
	}
	if !r.state.Phase.Closed() {
		if r.state.Active() || (r.wake != 0 && r.wake < p.window.Before) {
			return
		}
		if r.wake != 0 {
			p.far = earliest(p.far, r.wake)
		}
	}
	if p.reading {
		p.gone[r.id()] = struct{}{}
	}
	p.wakes.remove(r)
	p.unname(r, true)
	delete(p.runs, r.id())
}

func earliest(a, b core.Time) core.Time {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// ring is a first-in first-out queue that keeps its memory.
type ring[T any] struct {
	items []T
	head  int
}

func (q *ring[T]) len() int { return len(q.items) - q.head }

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
