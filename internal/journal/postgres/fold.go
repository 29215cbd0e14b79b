package postgres

import (
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// The row of a new run has the first piece of its history and its steps, if they are short, instead of separate rows: a
// run that sleeps has one row. Later data has separate rows. A row in steps_data replaces the one here; the view
// step_rows has both. A sleeping run then takes 530 bytes of database instead of 784. Attempts are not in the row: a
// run that sleeps has none, and lists would read wider rows.
const (
	mostPiece = 512 // bytes; longer ones would make the rows that lists read too wide
	mostSteps = 256
)

// folded is the row of a new run.
type folded struct {
	row   *journal.RunRow
	piece []byte // the checksum and the entries; nil: the history has separate rows
	steps string // a JSON array; empty: the steps have rows of their own
}

// fold takes the rows of new runs out of a view.
func fold(v *journal.View) (rest *journal.View, fresh []folded) {
	if v == nil || len(v.New) == 0 {
		return v, nil
	}
	left := *v
	left.Runs, left.Steps, left.History = nil, nil, nil
	fresh = make([]folded, 0, len(v.New))
	runs, steps, history := v.Runs, v.Steps, v.History
	for _, run := range v.New {
		for len(runs) > 0 && runs[0].ID != run {
			left.Runs, runs = append(left.Runs, runs[0]), runs[1:]
		}
		if len(runs) == 0 {
			break
		}
		var ownSteps []journal.StepRow
		left.Steps, ownSteps, steps = partOf(left.Steps, steps, run,
			func(s *journal.StepRow) core.RunID { return s.Run })
		var pieces []journal.HistoryRow
		left.History, pieces, history = partOf(left.History, history, run,
			func(h *journal.HistoryRow) core.RunID { return h.Run })
		one := folded{row: &runs[0], steps: foldedSteps(runs[0].CreatedAt, ownSteps)}
		if one.steps == "" {
			left.Steps = append(left.Steps, ownSteps...)
		}
		if len(pieces) == 1 && len(pieces[0].Entries) > 0 && len(pieces[0].Entries) <= mostPiece {
			one.piece = pieceOf(pieces[0].Entries)
		} else {
			left.History = append(left.History, pieces...)
		}
		fresh, runs = append(fresh, one), runs[1:]
	}
	left.Runs = append(left.Runs, runs...)
	left.Steps, left.History = append(left.Steps, steps...), append(left.History, history...)
	return &left, fresh
}

// partOf moves the rows before those of a run to others, and returns those of the run and the later ones.
func partOf[T any](others, rows []T, run core.RunID, of func(*T) core.RunID) (_, own, rest []T) {
	begin := 0
	for begin < len(rows) && of(&rows[begin]) != run {
		begin++
	}
	if begin == len(rows) { // it has none
		return others, nil, rows
	}
	end := begin
	for end < len(rows) && of(&rows[end]) == run {
		end++
	}
	return append(others, rows[:begin]...), rows[begin:end], rows[end:]
}

// pieceOf returns a piece of history with its checksum.
func pieceOf(entries []byte) []byte {
	b := make([]byte, 0, 4+len(entries))
	b = binary.BigEndian.AppendUint32(b, uint32(sum(entries)))
	return append(b, entries...)
}

// entriesOf returns the entries of a folded piece.
func entriesOf(piece []byte) ([]byte, error) {
	if len(piece) < 4 {
		return nil, check(nil, -1)
	}
	return piece[4:], check(piece[4:], int32(binary.BigEndian.Uint32(piece)))
}

// foldedSteps writes the steps of a run as text; empty: they need separate rows. The index of steps that are tried
// again has only such rows.
func foldedSteps(at core.Time, steps []journal.StepRow) string {
	if len(steps) == 0 || at <= 0 {
		return ""
	}
	t := journal.RowText{Text: make([]byte, 0, mostSteps), At: at, Fits: true}
	t.Text = append(t.Text, '[')
	for i := range steps {
		s := &steps[i]
		if s.Retrying() || len(t.Text) > mostSteps {
			return ""
		}
		t.Open(i)
		t.Number(int64(s.Step))
		t.String(stored(s.Name))
		t.Number(int64(s.Kind))
		t.Number(int64(s.Phase))
		t.Number(int64(s.Reason))
		t.Number(int64(s.Attempt))
		t.Instant(s.ScheduledAt)
		t.Instant(s.EndedAt)
		t.Instant(s.NextAt)
		t.Instant(s.Deadline)
		t.Close(stored(s.Message))
	}
	t.Text = append(t.Text, ']')
	if !t.Fits || len(t.Text) > mostSteps {
		return ""
	}
	return string(t.Text)
}

// addFolded adds the rows of all runs: new ones, and those of runs that already have rows, whose rows fold nothing.
func addFolded(v *journal.View, fresh []folded, st *statement) bool {
	n := len(fresh) + len(v.Runs)
	rows := make([]*journal.RunRow, n)
	pieces, steps := make(blobs, n), make([]string, n)
	for i := range fresh {
		rows[i], pieces[i], steps[i] = fresh[i].row, fresh[i].piece, fresh[i].steps
	}
	for i := range v.Runs {
		rows[len(fresh)+i] = &v.Runs[i]
	}
	addRunRows(rows, st)
	st.add(pieces, steps)
	return true
}
