package sqlite

import (
	"fmt"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/journal"
)

// rowCost is about how many bytes a view row puts into the log, counting its share of the pages that it changes.
const rowCost = 1 << 10

// view writes a part of the view and returns about how many bytes that put into the log.
func (w *writer) view(v *journal.View) (size int, err error) {
	for i := range v.Runs {
		if err := w.writeRun(&v.Runs[i]); err != nil {
			return 0, err
		}
	}
	for i := range v.Steps {
		if err := w.writeStep(&v.Steps[i]); err != nil {
			return 0, err
		}
	}
	for i := range v.Attempts {
		if err := w.writeAttempt(&v.Attempts[i]); err != nil {
			return 0, err
		}
	}
	for i := range v.History {
		if err := w.writePiece(&v.History[i]); err != nil {
			return 0, err
		}
		size += len(v.History[i].Entries)
	}
	return size + rowCost*(len(v.Runs)+len(v.Steps)+len(v.Attempts)+len(v.History)), nil
}

func (w *writer) writeRun(r *journal.RunRow) error {
	workflow, err := w.nameOf(r.Workflow)
	if err != nil {
		return err
	}
	def, err := w.definitionOf(r.Definition)
	if err != nil {
		return err
	}
	s, wake := w.run, r.Wake
	if r.Phase.Closed() {
		wake = 0 // Due is about open runs
	}
	s.BindBytes(1, r.ID[:])
	s.BindInt64(2, int64(r.Partition))
	s.BindInt64(3, workflow)
	bindText(s, 4, r.WorkflowID)
	bindText(s, 5, r.Key)
	s.BindInt64(6, def)
	s.BindInt64(7, int64(r.Phase))
	s.BindInt64(8, int64(r.CreatedAt))
	s.BindInt64(9, int64(r.EndedAt))
	s.BindInt64(10, int64(r.Deadline))
	s.BindInt64(11, int64(wake))
	if (r.Parent == core.RunID{}) {
		s.BindNull(12)
	} else {
		s.BindBytes(12, r.Parent[:])
	}
	bindText(s, 13, r.Message)
	s.BindInt64(14, int64(r.Applied))
	return do(s)
}

func (w *writer) writeStep(r *journal.StepRow) error {
	s := w.step
	s.BindBytes(1, r.Run[:])
	s.BindInt64(2, int64(r.Step))
	s.BindText(3, r.Name)
	s.BindInt64(4, int64(r.Kind))
	s.BindInt64(5, int64(r.Phase))
	s.BindInt64(6, int64(r.Reason))
	s.BindInt64(7, int64(r.Attempt))
	s.BindInt64(8, int64(r.ScheduledAt))
	s.BindInt64(9, int64(r.EndedAt))
	s.BindInt64(10, int64(r.NextAt))
	s.BindInt64(11, int64(r.Deadline))
	bindText(s, 12, r.Message)
	return do(s)
}

func (w *writer) writeAttempt(r *journal.AttemptRow) error {
	worker, err := w.nameOf(r.Worker)
	if err != nil {
		return err
	}
	outcome, err := w.nameOf(r.Outcome)
	if err != nil {
		return err
	}
	s := w.attempt
	s.BindBytes(1, r.Run[:])
	s.BindInt64(2, int64(r.Step))
	s.BindInt64(3, int64(r.Attempt))
	s.BindInt64(4, int64(r.ReadyAt))
	s.BindInt64(5, int64(r.Started))
	s.BindInt64(6, int64(r.Ended))
	s.BindInt64(7, worker)
	s.BindInt64(8, outcome)
	s.BindInt64(9, int64(r.Limit))
	bindText(s, 10, r.Message)
	return do(s)
}

func (w *writer) writePiece(h *journal.HistoryRow) error {
	s := w.piece
	s.BindBytes(1, h.Run[:])
	s.BindInt64(2, int64(h.Seq))
	s.BindInt64(3, sum(h.Entries))
	s.BindBytes(4, h.Entries)
	err := do(s)
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultConstraint {
		return fmt.Errorf("the history of run %s has a piece of batch %d already: %w", h.Run, h.Seq, err)
	}
	return err
}

// bindText stores empty text as NULL, which takes no room in the row and none in an index.
func bindText(s *sqlite.Stmt, param int, text string) {
	if text == "" {
		s.BindNull(param)
	} else {
		s.BindText(param, text)
	}
}

// nameOf returns the number of a name, giving it one at its first use; 0 is no name.
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
	const most = 10_000 // workers' names may be many over the years
	if len(w.names) >= most {
		clear(w.names)
	}
	w.names[name] = id
	return id, nil
}

// definition is what the writer knows of a stored definition.
type definition struct {
	num   int64
	whole bool // it has come; else a run only refers to it
}

// definitionOf returns the number of a definition; 0 is none.
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
		if utf8.Valid(src.Source) { // as text it is readable in the sqlite3 shell
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
