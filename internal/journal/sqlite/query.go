package sqlite

import (
	"context"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Due implements journal.Journal.
func (j *Journal) Due(
	ctx context.Context, partition int, from, before core.Time, limit int,
) (due []journal.Due, err error) {
	err = j.read(ctx, func(c *conn) error {
		// Without "wake > 0" SQLite would not use the partial index.
		return j.wrap("due", query(c, "SELECT id, wake FROM runs_data WHERE partition = ? AND wake > 0 AND wake >= ?"+
			" AND wake < ? ORDER BY wake, id LIMIT ?",
			func(s *sqlite.Stmt) {
				s.BindInt64(1, int64(partition))
				s.BindInt64(2, int64(from))
				s.BindInt64(3, int64(before))
				s.BindInt64(4, int64(max(limit, 0)))
			},
			func(s *sqlite.Stmt) (bool, error) {
				d := journal.Due{Wake: core.Time(s.ColumnInt64(1))}
				s.ColumnBytes(0, d.Run[:])
				due = append(due, d)
				return false, nil
			}))
	})
	return due, err
}

// runColumns are a run's columns in the order in which scanRun reads them.
const runColumns = "r.id, r.partition, n.name, r.workflow_id, r.key, d.id, r.phase, r.created_at, r.ended_at, " +
	"r.deadline," +
	" r.wake, r.parent, r.message, r.applied, "

// columns are runColumns and a run's labels.
func (j *Journal) columns(c *conn) (string, error) {
	if !j.labelled.Load() {
		found, err := hasLabels(c)
		if err != nil || !found {
			return runColumns + "NULL", err
		}
		j.labelled.Store(true)
	}
	return runColumns + labelsOf, nil
}

const runTables = "runs_data r LEFT JOIN names n ON n.id = r.workflow LEFT JOIN definitions d ON d.num = r.definition"

func scanRun(s *sqlite.Stmt) (r journal.RunRow) {
	s.ColumnBytes(0, r.ID[:])
	r.Partition = s.ColumnInt(1)
	r.Workflow = s.ColumnText(2)
	r.WorkflowID = s.ColumnText(3)
	r.Key = s.ColumnText(4)
	s.ColumnBytes(5, r.Definition[:])
	r.Phase = core.RunPhase(s.ColumnInt64(6))
	r.CreatedAt = core.Time(s.ColumnInt64(7))
	r.EndedAt = core.Time(s.ColumnInt64(8))
	r.Deadline = core.Time(s.ColumnInt64(9))
	r.Wake = core.Time(s.ColumnInt64(10))
	s.ColumnBytes(11, r.Parent[:])
	r.Message = s.ColumnText(12)
	r.Applied = uint64(s.ColumnInt64(13))
	r.Labels = core.Labels(s.ColumnText(14))
	return r
}

// scanRows bounds how many rows List reads in one snapshot.
const scanRows = 50_000

// List implements journal.Journal. With a filter that few runs match it has to read many others. It reads them in
// parts, because a long snapshot would keep the write-ahead log from being copied into the file.
func (j *Journal) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if q.Limit <= 0 {
		q.Limit = journal.DefaultLimit
	}
	var page journal.Page
	if q.WorkflowID != "" || q.Labels != "" || q.Stuck { // found by an index
		_, err := j.listPart(ctx, q, -1, &page)
		return page, err
	}
	for {
		next, err := j.listPart(ctx, q, scanRows, &page)
		if err != nil || page.More || next == (core.RunID{}) {
			return page, err
		}
		q.After = next
	}
}

// listPart adds the matching runs among the next rows to the page. It returns the last id of those rows, or zero if
// there are no more.
func (j *Journal) listPart(
	ctx context.Context, q journal.Query, rows int, page *journal.Page,
) (next core.RunID, err error) {
	err = j.read(ctx, func(c *conn) error {
		c.SetInterrupt(ctx.Done())
		defer c.SetInterrupt(nil)
		columns, err := j.columns(c)
		if err != nil {
			return j.wrap("list", err)
		}
		if q.Labels != "" && !j.labelled.Load() {
			return nil // of a file without labels
		}
		text, args := listQuery(q, columns)
		if rows > 0 {
			end, err := partEnd(c, q.After, rows)
			if err != nil {
				return j.wrap("list", err)
			}
			if next = end; next != (core.RunID{}) {
				text += " AND r.id >= ?"
				args = append(args, next[:])
			}
		}
		return j.wrap("list", query(c, text+" ORDER BY r.id DESC LIMIT ?",
			func(s *sqlite.Stmt) {
				for i, a := range args {
					switch a := a.(type) {
					case []byte:
						s.BindBytes(i+1, a)
					case string:
						s.BindText(i+1, a)
					case core.RunPhase:
						s.BindInt64(i+1, int64(a))
					case core.Time:
						s.BindInt64(i+1, int64(a))
					}
				}
				s.BindInt64(len(args)+1, int64(q.Limit-len(page.Runs)+1))
			},
			func(s *sqlite.Stmt) (bool, error) {
				if len(page.Runs) == q.Limit {
					page.More = true
					return true, nil
				}
				page.Runs = append(page.Runs, scanRun(s))
				return false, nil
			}))
	})
	return next, err
}

// partEnd returns the id that is so many rows after another one, in the list's order. It returns zero if there are
// fewer.
func partEnd(c *conn, after core.RunID, rows int) (end core.RunID, err error) {
	if after == (core.RunID{}) {
		for i := range after {
			after[i] = 0xff
		}
	}
	err = query(c, "SELECT id FROM runs_data WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?",
		func(s *sqlite.Stmt) { s.BindBytes(1, after[:]); s.BindInt64(2, int64(rows-1)) },
		func(s *sqlite.Stmt) (bool, error) { s.ColumnBytes(0, end[:]); return true, nil })
	return end, err
}

func listQuery(q journal.Query, columns string) (text string, args []any) {
	var b strings.Builder
	b.WriteString("SELECT " + columns + " FROM " + runTables + " WHERE 1")
	if q.After != (core.RunID{}) {
		b.WriteString(" AND r.id < ?")
		args = append(args, q.After[:])
	}
	if q.Workflow != "" {
		b.WriteString(" AND r.workflow = (SELECT id FROM names WHERE name = ?)")
		args = append(args, q.Workflow)
	}
	if q.WorkflowID != "" {
		b.WriteString(" AND r.workflow_id = ?")
		args = append(args, q.WorkflowID)
	}
	if len(q.Phases) > 0 {
		b.WriteString(" AND r.phase IN (?" + strings.Repeat(", ?", len(q.Phases)-1) + ")")
		for _, p := range q.Phases {
			args = append(args, p)
		}
	}
	if q.CreatedFrom != 0 {
		b.WriteString(" AND r.created_at >= ?")
		args = append(args, q.CreatedFrom)
	}
	if q.CreatedBefore != 0 {
		b.WriteString(" AND r.created_at < ?")
		args = append(args, q.CreatedBefore)
	}
	if q.Parent != (core.RunID{}) {
		b.WriteString(" AND r.parent = ?")
		args = append(args, q.Parent[:])
	}
	if q.Top {
		b.WriteString(" AND r.parent IS NULL")
	}
	args = listLabels(&b, q.Labels, args)
	if q.Stuck {
		args = listStuck(&b, q.Bodies, args)
	}
	return b.String(), args
}

// Steps returns a run's steps in the view, in order.
func (j *Journal) Steps(ctx context.Context, run core.RunID) (rows []journal.StepRow, err error) {
	err = j.read(ctx, func(c *conn) error {
		rows, err = stepsOf(c, run)
		return j.wrap("steps", err)
	})
	return rows, err
}

// Attempts returns a run's attempts in the view, in order.
func (j *Journal) Attempts(ctx context.Context, run core.RunID) (rows []journal.AttemptRow, err error) {
	err = j.read(ctx, func(c *conn) error {
		rows, err = attemptsOf(c, run)
		return j.wrap("attempts", err)
	})
	return rows, err
}

func stepsOf(c *conn, run core.RunID) (rows []journal.StepRow, err error) {
	err = query(c,
		"SELECT step, name, kind, phase, reason, attempt, scheduled_at, ended_at, next_at, deadline, message"+
			" FROM steps_data WHERE run = ? ORDER BY step",
		func(s *sqlite.Stmt) { s.BindBytes(1, run[:]) },
		func(s *sqlite.Stmt) (bool, error) {
			rows = append(rows, journal.StepRow{
				Run: run, Step: core.StepID(s.ColumnInt64(0)), Name: s.ColumnText(1),
				Kind:  core.StepKind(s.ColumnInt64(2)),
				Phase: core.StepPhase(s.ColumnInt64(3)), Reason: policy.Reason(s.ColumnInt64(4)),
				Attempt:     s.ColumnInt(5),
				ScheduledAt: core.Time(s.ColumnInt64(6)), EndedAt: core.Time(s.ColumnInt64(7)),
				NextAt:   core.Time(s.ColumnInt64(8)),
				Deadline: core.Time(s.ColumnInt64(9)), Message: s.ColumnText(10),
			})
			return false, nil
		})
	return rows, err
}

func attemptsOf(c *conn, run core.RunID) (rows []journal.AttemptRow, err error) {
	err = query(c,
		`SELECT a.step, a.attempt, a.ready_at, a.started_at, a.ended_at, w.name, o.name, a."limit", a.message`+
			" FROM attempts_data a LEFT JOIN names w ON w.id = a.worker LEFT JOIN names o ON o.id = a.outcome"+
			" WHERE a.run = ? ORDER BY a.step, a.attempt",
		func(s *sqlite.Stmt) { s.BindBytes(1, run[:]) },
		func(s *sqlite.Stmt) (bool, error) {
			rows = append(rows, journal.AttemptRow{
				Run: run, Step: core.StepID(s.ColumnInt64(0)), Attempt: s.ColumnInt(1),
				ReadyAt: core.Time(s.ColumnInt64(2)),
				Started: core.Time(s.ColumnInt64(3)), Ended: core.Time(s.ColumnInt64(4)), Worker: s.ColumnText(5),
				Outcome: s.ColumnText(6), Limit: policy.LimitKind(s.ColumnInt64(7)), Message: s.ColumnText(8),
			})
			return false, nil
		})
	return rows, err
}
