package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

func (s *storage) Due(
	ctx context.Context, partition int, from, before core.Time, limit int,
) (due []journal.Due, err error) {
	// The partial index would not be used without "wake > 0".
	err = s.read(ctx, "due", s.in("SELECT id, wake FROM {schema}.runs_data WHERE partition = $1 AND wake > 0 AND"+
		" wake >= $2"+
		" AND wake < $3 ORDER BY wake, id LIMIT $4"), []any{partition, int64(from), int64(before), max(limit, 0)},
		func() { due = nil },
		func(r pgx.Rows) error {
			var d journal.Due
			err := r.Scan((*[16]byte)(&d.Run), (*int64)(&d.Wake))
			due = append(due, d)
			return err
		})
	return due, err
}

// runColumns are a run's columns in the order in which scanRun reads them.
const runColumns = "id, partition, workflow, workflow_id, key, definition, phase, created_at, ended_at, deadline," +
	" wake, parent," +
	" message, applied, labels, ended_at = 0 AND wake <> 2 AND EXISTS (" + retriedText + " AND s.run = runs_data.id)"

// retriedText finds the runs with a step that backs off or is tried again; see journal.StepRow.Retrying. The constants
// are those of an index, which is used only for the same condition.
const retriedText = "SELECT s.run FROM {schema}.steps_data s WHERE s.ended_at = 0 AND (s.attempt > 1 OR s.phase = 3)"

func scanRun(rows pgx.Rows) (r journal.RunRow, err error) {
	var workflowID, key, message, labels pgtype.Text
	var definition, parent pgtype.UUID
	var phase int16
	err = rows.Scan((*[16]byte)(&r.ID), &r.Partition, &r.Workflow, &workflowID, &key, &definition, &phase,
		(*int64)(&r.CreatedAt), (*int64)(&r.EndedAt), (*int64)(&r.Deadline), (*int64)(&r.Wake), &parent, &message,
		&r.Applied, &labels, &r.Retrying)
	r.Labels = core.Labels(original(labels.String))
	r.Workflow, r.WorkflowID, r.Key = original(r.Workflow), original(workflowID.String), original(key.String)
	r.Message = original(message.String)
	r.Definition, r.Parent, r.Phase = definition.Bytes, parent.Bytes, core.RunPhase(phase)
	return r, err
}

const stepsText = "SELECT run, step, name, kind, phase, reason, attempt, scheduled_at, ended_at, next_at, deadline," +
	" message" +
	" FROM {schema}.step_rows WHERE run = ANY ($1) ORDER BY run, step"

func scanStep(rows pgx.Rows) (s journal.StepRow, err error) {
	var message pgtype.Text
	var kind, phase, reason int16
	err = rows.Scan((*[16]byte)(&s.Run), (*uint32)(&s.Step), &s.Name, &kind, &phase, &reason, &s.Attempt,
		(*int64)(&s.ScheduledAt), (*int64)(&s.EndedAt), (*int64)(&s.NextAt), (*int64)(&s.Deadline), &message)
	s.Name, s.Message = original(s.Name), original(message.String)
	s.Kind, s.Phase, s.Reason = core.StepKind(kind), core.StepPhase(phase), policy.Reason(reason)
	return s, err
}

const attemptsText = "SELECT run, step, attempt, ready_at, started_at, ended_at, worker, outcome, \"limit\", message" +
	" FROM {schema}.attempts_data WHERE run = ANY ($1) ORDER BY run, step, attempt"

func scanAttempt(rows pgx.Rows) (a journal.AttemptRow, err error) {
	var worker, ended, message pgtype.Text
	var limit int16
	err = rows.Scan((*[16]byte)(&a.Run), (*uint32)(&a.Step), &a.Attempt, (*int64)(&a.ReadyAt), (*int64)(&a.Started),
		(*int64)(&a.Ended), &worker, &ended, &limit, &message)
	a.Worker, a.Outcome, a.Message = original(worker.String), original(ended.String), original(message.String)
	a.Limit = policy.LimitKind(limit)
	return a, err
}

// steps reads the steps of runs.
func (s *storage) steps(ctx context.Context, runs uuids) (rows []journal.StepRow, err error) {
	err = s.read(ctx, "steps", s.in(stepsText), []any{runs}, func() { rows = nil },
		func(r pgx.Rows) error {
			row, err := scanStep(r)
			rows = append(rows, row)
			return err
		})
	return rows, err
}

// attempts reads the attempts of runs.
func (s *storage) attempts(ctx context.Context, runs uuids) (rows []journal.AttemptRow, err error) {
	err = s.read(ctx, "attempts", s.in(attemptsText), []any{runs}, func() { rows = nil },
		func(r pgx.Rows) error {
			row, err := scanAttempt(r)
			rows = append(rows, row)
			return err
		})
	return rows, err
}
