package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

func (j *Journal) Due(
	ctx context.Context, partition int, from, before core.Time, limit int,
) (due []journal.Due, err error) {
	err = j.read(ctx, func(c *conn) error {
		// SQLite would not use the partial index without "wake > 0".
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

// runColumns are a run's columns in the order in which scanRun reads them. Without the index, the steps of a run would
// be read one by one.
var runColumns = "r.id, r.partition, n.name, r.workflow_id, r.key, d.id, r.phase, r.created_at, r.ended_at," +
	" r.deadline, r.wake, r.parent, r.message, r.applied," +
	fmt.Sprintf(" CASE WHEN r.ended_at = 0 AND r.wake <> %d THEN EXISTS (SELECT 1 FROM steps_data s"+
		" INDEXED BY steps_retrying WHERE s.run = r.id AND %s) END, ", journal.WakeSetAside, retrying) + labelsOf

// runNames joins the names that a run's row refers to.
const runNames = " LEFT JOIN names n ON n.id = r.workflow LEFT JOIN definitions d ON d.num = r.definition"

func scanRun(s *sqlite.Stmt) (r journal.RunRow) {
	s.ColumnBytes(0, r.ID[:])
	r.Partition = s.ColumnInt(1)
	r.Workflow = s.ColumnText(2)
	r.WorkflowID = s.ColumnText(3)
	r.Key = s.ColumnText(4)
	s.ColumnBytes(5, r.Definition[:])
	r.Phase = core.RunPhase(s.ColumnInt64(6))
	if r.CreatedAt = core.Time(s.ColumnInt64(7)); s.ColumnIsNull(7) {
		r.CreatedAt = r.ID.Instant()
	}
	r.EndedAt = core.Time(s.ColumnInt64(8))
	r.Deadline = core.Time(s.ColumnInt64(9))
	r.Wake = core.Time(s.ColumnInt64(10))
	s.ColumnBytes(11, r.Parent[:])
	r.Message = s.ColumnText(12)
	r.Applied = uint64(s.ColumnInt64(13))
	r.Retrying = s.ColumnBool(14)
	r.Labels = core.Labels(s.ColumnText(15))
	return r
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
			" FROM "+allSteps+" WHERE run = ? ORDER BY step",
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
			" FROM "+allAttempts+" a LEFT JOIN names w ON w.id = a.worker LEFT JOIN names o ON o.id = a.outcome"+
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
