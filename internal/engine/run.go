package engine

import (
	"container/list"
	"encoding/binary"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/policy"
)

// run is a run in memory: its state, and the entries that the view does not have yet.
type run struct {
	state     *core.Run
	kind      *Kind
	rows      rows
	lastBatch uint64 // the last batch that has an entry of the run
	// startsChildIn is the last batch in which the run started a child run that begins with the next batch.
	startsChildIn uint64
	endBatch      uint64 // the batch of its end; entries about attempts that still stop may follow
	aside         *aside // set if the run is set aside: its state must not be used then
	rests         bool   // only callers and other runs change it
	unrecovered   bool   // an earlier owner left it with attempts, and recover has not run yet
	keptRemote    bool   // the attempts of the run at remote workers are known; see keepRemote

	// Changes that the view does not have yet:
	pending       Piece     // entries for which no batch has taken the rows
	firstPending  uint64    // the first batch with an entry in pending; 0: pending is empty
	pendingSince  core.Time // when the first entry in pending was recorded
	pendingOffset int64     // bytes of entries before that one
	writing       []Piece   // entries whose rows are in batches that are not durable yet
	kept          []Piece   // the newest entries of those that the view has; see keepNewest
	keptBytes     int
	inSettled     bool // it is in projection.settled

	// As of the last recorded entry. After a panic the state may be ahead of it.
	recorded bool // there is a recorded entry
	phase    core.RunPhase
	endedAt  core.Time
	failure  *policy.Failure

	bytes      int           // the size of the run's entries, about
	warm       *list.Element // its place among those that stay in memory although nothing is due; nil: it has none
	warmWeight int           // what it counts there

	wake       core.Time // the key in wakes; 0 if it is not there
	place      int       // the index in the heap of wakes
	prev, next *run      // the neighbours in behindList
}

func (r *run) id() core.RunID { return r.state.ID }

// fold applies a recorded entry to the state.
func (r *run) fold(e *core.Entry) (err error) {
	defer catchPanic("its history was folded", nil, &err)
	r.state.Fold(*e)
	r.rows.note(r.state, e, nil)
	return nil
}

// noteRecorded notes that the state has recorded entries only.
func (r *run) noteRecorded() {
	s := r.state
	r.recorded, r.phase, r.endedAt, r.failure = true, s.Phase, s.EndedAt, s.Failure
}

// usualEntries is the approximate size of a step's entries in bytes.
const usualEntries = 96

// addPending adds an encoded entry to those that the view does not have.
func (r *run) addPending(seq uint64, encoded []byte) {
	p := &r.pending
	large := len(encoded) >= journal.LargeEntry
	// Growing from entry to entry would copy them again and again. For a large one append makes room, without clearing.
	if len(p.bytes)+len(encoded) > cap(p.bytes) && !large {
		p.bytes = slices.Grow(p.bytes, len(encoded)+usualEntries*cap(r.state.Steps))
	}
	if len(p.marks) == 1 {
		p.marks = slices.Grow(p.marks, min(cap(r.state.Steps), manyAttempts))
	}
	if n := len(p.bytes); large {
		p.large = append(p.large, journal.Large{Run: r.id(), Seq: seq, From: n, To: n + len(encoded)})
	}
	p.bytes = append(p.bytes, encoded...)
	r.bytes += len(encoded)
	if n := len(p.marks); n > 0 && p.marks[n-1].seq == seq {
		p.marks[n-1].end = len(p.bytes)
	} else {
		p.marks = append(p.marks, mark{seq, len(p.bytes)})
	}
	r.lastBatch = seq
}

// rowsWritten notes that the oldest rows in writing are durable.
func (r *run) rowsWritten() {
	r.keepNewest(r.writing[0])
	r.writing = r.writing[1:]
	if len(r.writing) == 0 {
		r.writing = nil
	}
}

// viewed reports whether the view has everything of the run, durably.
func (r *run) viewed() bool { return r.firstPending == 0 && len(r.writing) == 0 }

// pieces returns the entries that the view may not have, and some before them. It shares their bytes, which never
// change: new ones are only appended.
func (r *run) pieces() []Piece {
	out := slices.Concat(r.kept, r.writing)
	if len(r.pending.marks) > 0 {
		out = append(out, Piece{bytes: r.pending.bytes, marks: slices.Clone(r.pending.marks)})
	}
	return out
}

// viewWake returns the wake time in the run's row. A run with attempts, or of a queue, has journal.WakeActive, so that
// the next owner loads it at once.
func (r *run) viewWake() core.Time {
	if r.state.Phase.Closed() {
		return 0
	}
	if r.state.Active() || r.state.UsesQueue() {
		return journal.WakeActive
	}
	return r.state.Wake()
}

// row makes the run's row in the view.
func (r *run) row(partition int, applied uint64) journal.RunRow {
	row := r.columns(partition, applied)
	r.tell(&row)
	return row
}

// tell adds the words of the run to its row. It costs more than the other columns.
func (r *run) tell(row *journal.RunRow) {
	if r.aside != nil {
		return // its state cannot be trusted
	}
	if words := trail.Row(r.state); len(words) > 0 {
		row.Told = string(append(binary.AppendUvarint(nil, row.Applied), words...))
	}
}

// columns makes the run's row without its words.
func (r *run) columns(partition int, applied uint64) journal.RunRow {
	s := r.state
	row := journal.RunRow{
		ID: s.ID, Partition: partition, Workflow: s.Workflow, WorkflowID: s.WorkflowID, Key: s.Key,
		Definition: s.Definition, Parent: s.Parent.Run,
		Phase: s.Phase, CreatedAt: s.CreatedAt, EndedAt: s.EndedAt, Deadline: s.Execution.At,
		Applied: applied, Labels: s.Labels,
	}
	if d := s.Deadline.At; d != 0 && (row.Deadline == 0 || d < row.Deadline) {
		row.Deadline = d
	}
	if s.ClockStands() {
		row.Deadline = 0
	}
	if r.aside != nil {
		r.asideRow(&row) // the rest reads the state, which cannot be trusted
		return row
	}
	row.Wake, row.Retrying = r.viewWake(), s.Retrying() && !s.Phase.Closed()
	held := s.HeldNow()
	switch {
	case core.StopsWork(s):
		row.Message = core.StoppingMessage
	case s.Failure != nil:
		row.Message = core.PlainText(s.Failure.Message)
	case held.Reason != core.HeldNone:
		row.Message = held.Why()
	}
	return row
}

// ReadTold returns the words of a run from its row; see [trail.OfRow].
func ReadTold(row *journal.RunRow) (*trail.Told, bool) {
	words := []byte(row.Told)
	if applied, n := binary.Uvarint(words); len(words) > 0 && (n <= 0 || applied != row.Applied) {
		return nil, false // an older version has replaced the row
	} else if len(words) > 0 {
		words = words[n:]
	}
	return trail.OfRow(words, row.Phase, row.CreatedAt, row.EndedAt)
}

// outcome returns how the run ended.
func (r *run) outcome() Outcome { return outcomeOf(r.state) }

func outcomeOf(s *core.Run) Outcome {
	return Outcome{Run: s.ID, Phase: s.Phase, Output: s.Attached().ShownValue(s.Output), Failure: s.Failure}
}

// asideRow changes the row of a run that is set aside. It shows the last recorded values, because the state may be
// ahead of them.
func (r *run) asideRow(row *journal.RunRow) {
	row.Phase, row.EndedAt, row.Message, row.Wake = r.phase, r.endedAt, "", 0
	switch {
	case !r.phase.Closed():
		row.Message, row.Wake = r.aside.Error(), journal.WakeSetAside
	case r.failure != nil:
		row.Message = r.failure.Message // it panicked when somebody tried to retry it, so it stays closed as it was
	}
}

const (
	// warmFrom is how many entries a run has at least that is worth keeping: a shorter one is read again in no time.
	warmFrom = 32
	// warmBytes bounds the runs of a partition that stay in memory although nothing is due in them, by the bytes of
	// their entries.
	warmBytes = 32 << 20
	// warmLeast is what a run counts at least: its state takes more than its entries.
	warmLeast = 4 << 10
	// keptBytes bounds the newest entries of such a run that are kept as bytes.
	keptBytes = 16 << 10
)

// warmRuns are open runs that stay in memory although nothing is due in them. The one that was used last is in front.
type warmRuns struct {
	order list.List
	bytes int
}

// stays reports whether an open run is worth keeping: each of its inputs would otherwise read its whole history, so a
// run that gets many would get ever slower.
func (r *run) stays() bool { return len(r.state.Updates) > 0 || r.state.Seq >= warmFrom }

// weight returns what a run counts.
func (r *run) weight() int { return max(r.bytes, warmLeast) }

// keep keeps a run, and returns those that leave in its place, which were used least lately.
func (w *warmRuns) keep(r *run) (leaving []*run) {
	w.leave(r)
	r.warm, r.warmWeight = w.order.PushFront(r), r.weight()
	for w.bytes += r.warmWeight; w.bytes > warmBytes && w.order.Len() > 1; {
		last := w.order.Back().Value.(*run)
		w.leave(last)
		leaving = append(leaving, last)
	}
	return leaving
}

// leave forgets a run that leaves memory, or is used.
func (w *warmRuns) leave(r *run) {
	if r.warm == nil {
		return
	}
	w.order.Remove(r.warm)
	w.bytes -= r.warmWeight
	r.warm = nil
}

// keepNewest keeps entries that the view has from now on: who follows the run has all but the newest, and gets those
// without a read of the journal.
func (r *run) keepNewest(p Piece) {
	if !r.stays() {
		r.kept, r.keptBytes = nil, 0
		return
	}
	r.kept = append(r.kept, p)
	r.keptBytes += len(p.bytes)
	for r.keptBytes > keptBytes && len(r.kept) > 0 {
		r.keptBytes -= len(r.kept[0].bytes)
		r.kept = r.kept[1:]
	}
}
