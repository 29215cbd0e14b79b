package sqlite

import (
	"fmt"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// rowCost is approximately how many bytes a row of the view adds to the log, with its share of the changed pages.
const rowCost = 1 << 10

// view writes a part of the view of a partition. It returns about how many bytes that added to the log.
func (w *writer) view(partition int, v *journal.View) (size int, err error) {
	if err := writeRows(&w.run, v.Runs, w.bindRun); err != nil {
		return 0, err
	}
	if err := w.labels(v.Runs); err != nil {
		return 0, err
	}
	if err := w.told(v); err != nil {
		return 0, err
	}
	steps, attempts, err := w.takeEnded(v)
	if err != nil {
		return 0, err
	}
	if err := writeRows(&w.endedRun, w.ended, bindEnded); err != nil {
		return 0, err
	}
	if err := writeRows(&w.step, steps, w.bindStep); err != nil {
		return 0, err
	}
	if err := writeRows(&w.attempt, attempts, w.bindAttempt); err != nil {
		return 0, err
	}
	w.pack.runs = v.Runs
	bindPiece := func(s *sqlite.Stmt, at int, h *journal.HistoryRow) error {
		entries, err := w.referTo(partition, h)
		if err == nil {
			entries, err = w.pack.piece(h, entries)
		}
		if err != nil {
			return err
		}
		size += len(entries)
		w.bindPiece(s, at, h, entries)
		return nil
	}
	if err := writeRows(&w.piece, v.History, bindPiece); err != nil {
		if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultConstraint {
			err = fmt.Errorf("a run's history has a piece of its batch already: %w", err)
		}
		return 0, err
	}
	return size + rowCost*(len(v.Runs)+len(w.ended)+len(steps)+len(attempts)+len(v.History)), nil
}

func (w *writer) bindRun(s *sqlite.Stmt, at int, r *journal.RunRow) error {
	workflow, err := w.nameOf(r.Workflow)
	if err != nil {
		return err
	}
	def, err := w.definitionOf(r.Definition)
	if err != nil {
		return err
	}
	wake := r.Wake
	if r.Phase.Closed() {
		wake = 0 // Due only returns open runs
	}
	s.BindBytes(at+1, r.ID[:])
	s.BindInt64(at+2, int64(r.Partition))
	s.BindInt64(at+3, workflow)
	bindText(s, at+4, r.WorkflowID)
	bindText(s, at+5, r.Key)
	s.BindInt64(at+6, def)
	s.BindInt64(at+7, int64(r.Phase))
	if r.CreatedAt == r.ID.Instant() {
		s.BindNull(at + 8)
	} else {
		s.BindInt64(at+8, int64(r.CreatedAt))
	}
	s.BindInt64(at+9, int64(r.EndedAt))
	s.BindInt64(at+10, int64(r.Deadline))
	s.BindInt64(at+11, int64(wake))
	if (r.Parent == core.RunID{}) {
		s.BindNull(at + 12)
	} else {
		s.BindBytes(at+12, r.Parent[:])
	}
	bindText(s, at+13, r.Message)
	s.BindInt64(at+14, int64(r.Applied))
	return nil
}

func (w *writer) bindStep(s *sqlite.Stmt, at int, r *journal.StepRow) error {
	s.BindBytes(at+1, r.Run[:])
	s.BindInt64(at+2, int64(r.Step))
	s.BindText(at+3, r.Name)
	s.BindInt64(at+4, int64(r.Kind))
	s.BindInt64(at+5, int64(r.Phase))
	s.BindInt64(at+6, int64(r.Reason))
	s.BindInt64(at+7, int64(r.Attempt))
	s.BindInt64(at+8, int64(r.ScheduledAt))
	s.BindInt64(at+9, int64(r.EndedAt))
	s.BindInt64(at+10, int64(r.NextAt))
	s.BindInt64(at+11, int64(r.Deadline))
	bindText(s, at+12, r.Message)
	return nil
}

func (w *writer) bindAttempt(s *sqlite.Stmt, at int, r *journal.AttemptRow) error {
	worker, err := w.nameOf(r.Worker)
	if err != nil {
		return err
	}
	outcome, err := w.nameOf(r.Outcome)
	if err != nil {
		return err
	}
	s.BindBytes(at+1, r.Run[:])
	s.BindInt64(at+2, int64(r.Step))
	s.BindInt64(at+3, int64(r.Attempt))
	s.BindInt64(at+4, int64(r.ReadyAt))
	s.BindInt64(at+5, int64(r.Started))
	s.BindInt64(at+6, int64(r.Ended))
	s.BindInt64(at+7, worker)
	s.BindInt64(at+8, outcome)
	s.BindInt64(at+9, int64(r.Limit))
	bindText(s, at+10, r.Message)
	return nil
}

func (w *writer) bindPiece(s *sqlite.Stmt, at int, h *journal.HistoryRow, entries []byte) {
	s.BindBytes(at+1, h.Run[:])
	s.BindInt64(at+2, int64(h.Seq))
	s.BindInt64(at+3, sum(entries))
	s.BindBytes(at+4, entries)
}

// bindText stores empty text as NULL, which takes no space in the row or in an index.
func bindText(s *sqlite.Stmt, param int, text string) {
	if text == "" {
		s.BindNull(param)
	} else {
		s.BindText(param, text)
	}
}

// nameOf returns the number of a name. A new name gets one. 0 means no name.
func (w *writer) nameOf(name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	if id, ok := w.names[name]; ok {
		return id, nil
	}
	w.findName.BindText(1, name)
	id, found, err := one(w.findName)
	if err != nil {
		return 0, err
	}
	if !found {
		w.addName.BindText(1, name)
		if id, _, err = one(w.addName); err != nil {
			return 0, err
		}
		w.freshNames = append(w.freshNames, name)
	}
	const most = 10_000 // there may be many names of workers over the years
	if len(w.names) >= most {
		clear(w.names)
	}
	w.names[name] = id
	return id, nil
}

// definition is the writer's knowledge of a stored definition.
type definition struct {
	num   int64
	whole bool // its source is stored; false: so far only runs refer to it
}

// definitionOf returns the number of a definition. 0 means none.
func (w *writer) definitionOf(id core.DefinitionID) (int64, error) {
	if (id == core.DefinitionID{}) {
		return 0, nil
	}
	d, err := w.lookUp(id)
	if err != nil || d.num != 0 {
		return d.num, err
	}
	s := w.define
	s.BindBytes(1, id[:])
	s.BindNull(2)
	s.BindNull(3)
	s.BindNull(4)
	if d.num, _, err = one(s); err != nil {
		return 0, err
	}
	w.freshDefinitions = append(w.freshDefinitions, id)
	w.definitions[id] = d
	return d.num, nil
}

func (w *writer) lookUp(id core.DefinitionID) (definition, error) {
	if d, ok := w.definitions[id]; ok {
		return d, nil
	}
	s := w.findDefinition
	s.BindBytes(1, id[:])
	found, err := s.Step()
	if err != nil {
		return definition{}, err
	}
	var d definition
	if found {
		d = definition{s.ColumnInt64(0), s.ColumnBool(1)}
		w.definitions[id] = d
	}
	return d, s.Reset()
}

func (w *writer) defineAll(definitions []journal.Definition) error {
	for i := range definitions {
		src := &definitions[i]
		d, err := w.lookUp(src.ID)
		if err != nil {
			return err
		}
		if d.whole {
			continue
		}
		s := w.define
		s.BindBytes(1, src.ID[:])
		s.BindText(2, src.Kind)
		s.BindText(3, src.Name)
		if utf8.Valid(src.Source) { // text is readable in the sqlite3 shell
			s.BindText(4, string(src.Source))
		} else {
			s.BindBytes(4, src.Source)
		}
		if d.num, _, err = one(s); err != nil {
			return err
		}
		d.whole = true
		w.freshDefinitions = append(w.freshDefinitions, src.ID)
		w.definitions[src.ID] = d
	}
	return nil
}
