package postgres

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// Columns of rows, as pgx encodes them without reflection.
type (
	uuids = [][16]byte
	blobs = pgtype.FlatArray[[]byte]
)

func newUUIDs(n int) uuids    { return make(uuids, 0, n) }
func newTexts(n int) []string { return make([]string, 0, n) }
func newBlobs(n int) blobs    { return make(blobs, 0, n) }

// notNil returns the bytes so that they are not stored as NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// columns are number columns of a part of the view. Many rows share one allocation.
type columns[T any] struct {
	room []T
	rows int
}

func newColumns[T any](count, rows int) columns[T] {
	return columns[T]{make([]T, count*rows), rows}
}

// of returns the nth column.
func (c columns[T]) of(n int) []T { return c.room[n*c.rows : (n+1)*c.rows : (n+1)*c.rows] }

// add gives the columns to a statement as its next parameters.
func (c columns[T]) add(st *statement) {
	for n := range len(c.room) / c.rows {
		st.add(c.of(n))
	}
}

func addRuns(v *journal.View, st *statement) bool {
	if len(v.Runs) == 0 {
		return false
	}
	rows := make([]*journal.RunRow, len(v.Runs))
	for i := range rows {
		rows[i] = &v.Runs[i]
	}
	addRunRows(rows, st)
	return true
}

// addRunRows adds the columns that the rows of all runs have.
func addRunRows(rows []*journal.RunRow, st *statement) {
	instants, ids := newColumns[int64](5, len(rows)), newColumns[[16]byte](3, len(rows))
	texts, told := newColumns[string](5, len(rows)), make(blobs, len(rows))
	partitions, phases := make([]int32, len(rows)), make([]int16, len(rows))
	for i, r := range rows {
		wake := r.Wake
		if r.Phase.Closed() {
			wake = 0 // Due only returns open runs
		}
		for n, v := range [...]core.Time{r.CreatedAt, r.EndedAt, r.Deadline, wake, core.Time(r.Applied)} {
			instants.of(n)[i] = int64(v)
		}
		for n, v := range [...][16]byte{r.ID, r.Definition, r.Parent} {
			ids.of(n)[i] = v
		}
		for n, v := range [...]string{r.Workflow, r.WorkflowID, r.Key, r.Message, string(r.Labels)} {
			texts.of(n)[i] = stored(v)
		}
		partitions[i], phases[i] = int32(r.Partition), int16(r.Phase)
		told[i] = []byte(r.Told)
	}
	instants.add(st)
	st.add(partitions, phases)
	ids.add(st)
	texts.add(st)
	st.add(told)
}

func addSteps(v *journal.View, st *statement) bool {
	if len(v.Steps) == 0 {
		return false
	}
	rows := v.Steps
	instants, numbers := newColumns[int64](4, len(rows)), newColumns[int32](2, len(rows))
	small, texts := newColumns[int16](3, len(rows)), newColumns[string](2, len(rows))
	runs := make(uuids, len(rows))
	for i := range rows {
		r := &rows[i]
		for n, v := range [...]core.Time{r.ScheduledAt, r.EndedAt, r.NextAt, r.Deadline} {
			instants.of(n)[i] = int64(v)
		}
		numbers.of(0)[i], numbers.of(1)[i] = int32(r.Step), int32(r.Attempt)
		for n, v := range [...]int16{int16(r.Kind), int16(r.Phase), int16(r.Reason)} {
			small.of(n)[i] = v
		}
		runs[i] = r.Run
		texts.of(0)[i], texts.of(1)[i] = stored(r.Name), stored(r.Message)
	}
	instants.add(st)
	numbers.add(st)
	small.add(st)
	st.add(runs)
	texts.add(st)
	return true
}

func addAttempts(v *journal.View, st *statement) bool {
	if len(v.Attempts) == 0 {
		return false
	}
	rows := v.Attempts
	instants, numbers := newColumns[int64](3, len(rows)), newColumns[int32](2, len(rows))
	limits, runs, texts := make([]int16, len(rows)), make(uuids, len(rows)), newColumns[string](3, len(rows))
	for i := range rows {
		r := &rows[i]
		for n, v := range [...]core.Time{r.ReadyAt, r.Started, r.Ended} {
			instants.of(n)[i] = int64(v)
		}
		numbers.of(0)[i], numbers.of(1)[i] = int32(r.Step), int32(r.Attempt)
		limits[i], runs[i] = int16(r.Limit), r.Run
		for n, v := range [...]string{r.Worker, r.Outcome, r.Message} {
			texts.of(n)[i] = stored(v)
		}
	}
	instants.add(st)
	numbers.add(st)
	st.add(limits, runs)
	texts.add(st)
	return true
}

func addHistory(v *journal.View, st *statement) bool {
	if len(v.History) == 0 {
		return false
	}
	rows := v.History
	seqs, sums := make([]int64, len(rows)), make([]int32, len(rows))
	runs, entries := make(uuids, len(rows)), make(blobs, len(rows))
	for i := range rows {
		h := &rows[i]
		seqs[i], sums[i], runs[i], entries[i] = int64(h.Seq), sum(h.Entries), h.Run, notNil(h.Entries)
	}
	st.add(seqs, sums, runs, entries)
	return true
}
