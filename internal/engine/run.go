package engine

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// run is a run in memory: its state, and what the view does not know of it yet.
type run struct {
	state       *core.Run
	kind        *Kind
	rows        rows
	lastBatch   uint64 // the last batch that holds an entry of the run
	endBatch    uint64 // the batch of its end; entries of attempts that stop may follow
	aside       *aside // it stands still, and its state is not to be used; nil: it does not
	unrecovered bool   // restored from a predecessor's batches, its attempts not yet looked at

	// What the view lacks. first is 0 where it lacks nothing that is not on its way.
	firstPending  uint64    // the first batch with an entry in pending
	pendingSince  core.Time // when that was
	pendingOffset int64     // bytes of the journal before that entry
	pending       Piece
	writing       []Piece // on their way in batches that are not durable yet
	inSettled     bool    // among the settled: worth writing

	// As of the last entry that was recorded; the state may be ahead of it after a panic.
	recorded bool // there is one
	phase    core.RunPhase
	endedAt  core.Time
	failure  *policy.Failure

	wake       core.Time // its place among the timers; 0: none
	place      int
	prev, next *run // among the runs the view lacks something of
}

func (r *run) id() core.RunID { return r.state.ID }

// fold takes in an entry that was recorded.
func (r *run) fold(e *core.Entry) (err error) {
	defer catchPanic("its history was folded", nil, &err)
	r.state.Fold(*e)
	r.rows.note(r.state, e)
	return nil
}

// noteRecorded notes that the state is what was recorded.
func (r *run) noteRecorded() {
	s := r.state
	r.recorded, r.phase, r.endedAt, r.failure = true, s.Phase, s.EndedAt, s.Failure
}

// keep adds an entry's encoding to what the view lacks.
func (r *run) addPending(seq uint64, encoded []byte) {
	p := &r.pending
	p.bytes = append(p.bytes, encoded...)
	if n := len(p.marks); n > 0 && p.marks[n-1].seq == seq {
		p.marks[n-1].end = len(p.bytes)
	} else {
		p.marks = append(p.marks, mark{seq, len(p.bytes)})
	}
	r.lastBatch = seq
}

// written notes that the oldest rows on their way are durable.
func (r *run) rowsWritten() {
	r.writing = r.writing[1:]
	if len(r.writing) == 0 {
		r.writing = nil
	}
}

// clean reports whether the view knows all of the run, durably.
func (r *run) viewed() bool { return r.firstPending == 0 && len(r.writing) == 0 }

// pieces copies what the view may lack. The bytes are shared: they are only ever appended to.
func (r *run) pieces() []Piece {
	out := slices.Clone(r.writing)
	if len(r.pending.marks) > 0 {
		out = append(out, Piece{r.pending.bytes, slices.Clone(r.pending.marks)})
	}
	return out
}

// due says when the run wants attention, as its row in the view has it: 1 where attempts are in flight.
func (r *run) viewWake() core.Time {
	if r.state.Phase.Closed() {
		return 0
	}
	if r.state.Active() {
		return journal.WakeActive
	}
	return r.state.Wake()
}

// row is the run as lists show it.
func (r *run) row(partition int, applied uint64) journal.RunRow {
	s := r.state
	row := journal.RunRow{
		ID: s.ID, Partition: partition, Workflow: s.Workflow, WorkflowID: s.WorkflowID, Key: s.Key, Definition: s.Definition,
		Phase: s.Phase, CreatedAt: s.CreatedAt, EndedAt: s.EndedAt, Deadline: s.Execution.At, Wake: r.viewWake(), Parent: s.Parent.Run,
		Applied: applied,
	}
	if d := s.Deadline.At; d != 0 && (row.Deadline == 0 || d < row.Deadline) {
		row.Deadline = d
	}
	if s.Failure != nil {
		row.Message = s.Failure.Message
	}
	if r.aside != nil {
		r.asideRow(&row)
	}
	return row
}

// outcome is how the run ended.
func (r *run) outcome() Outcome { return outcomeOf(r.state) }

func outcomeOf(s *core.Run) Outcome {
	return Outcome{Run: s.ID, Phase: s.Phase, Output: s.Output, Failure: s.Failure}
}

// asideRow makes the row of an open run say that it is set aside. What the state says beyond the last record is not so.
func (r *run) asideRow(row *journal.RunRow) {
	row.Phase, row.EndedAt, row.Message, row.Wake = r.phase, r.endedAt, "", 0
	switch {
	case !r.phase.Closed():
		row.Message, row.Wake = r.aside.Error(), journal.WakeSetAside
	case r.failure != nil:
		row.Message = r.failure.Message // it has ended as it had before something tried to open it again
	}
}
