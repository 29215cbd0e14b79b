package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Due implements journal.Journal.
func (s *storage) Due(
	ctx context.Context, partition int, from, before core.Time, limit int,
) (due []journal.Due, err error) {
	// Without "wake > 0" the partial index would not be used.
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
	" message, applied, labels"

func scanRun(rows pgx.Rows) (r journal.RunRow, err error) {
	var workflowID, key, message, labels pgtype.Text
	var definition, parent pgtype.UUID
	var phase int16
	err = rows.Scan((*[16]byte)(&r.ID), &r.Partition, &r.Workflow, &workflowID, &key, &definition, &phase,
		(*int64)(&r.CreatedAt), (*int64)(&r.EndedAt), (*int64)(&r.Deadline), (*int64)(&r.Wake), &parent, &message,
		&r.Applied, &labels)
	r.Labels = core.Labels(original(labels.String))
	r.Workflow, r.WorkflowID, r.Key = original(r.Workflow), original(workflowID.String), original(key.String)
	r.Message = original(message.String)
	r.Definition, r.Parent, r.Phase = definition.Bytes, parent.Bytes, core.RunPhase(phase)
	return r, err
}

// List implements journal.Journal.
func (s *storage) List(ctx context.Context, q journal.Query) (page journal.Page, err error) {
	if q.Limit <= 0 {
		q.Limit = journal.DefaultLimit
	}
	where, args := listQuery(q)
	args = append(args, q.Limit+1)
	text := "SELECT " + runColumns + " FROM {schema}.runs_data" + where + " ORDER BY id DESC LIMIT" +
		" $" + strconv.Itoa(len(args))
	err = s.read(ctx, "list", s.in(text), args,
		func() { page = journal.Page{} },
		func(rows pgx.Rows) error {
			if len(page.Runs) == q.Limit {
				page.More = true
				return nil
			}
			r, err := scanRun(rows)
			page.Runs = append(page.Runs, r)
			return err
		})
	return page, err
}

func listQuery(q journal.Query) (where string, args []any) {
	var all []string
	add := func(condition string, arg any) {
		args = append(args, arg)
		all = append(all, strings.ReplaceAll(condition, "$", "$"+strconv.Itoa(len(args))))
	}
	if q.After != (core.RunID{}) {
		add("id < $", [16]byte(q.After))
	}
	if q.Workflow != "" {
		add("workflow = $", stored(q.Workflow))
	}
	if q.WorkflowID != "" {
		add("left(workflow_id, 200) = left($, 200) AND workflow_id = $", stored(q.WorkflowID))
	}
	if len(q.Phases) > 0 {
		phases := make([]int16, len(q.Phases))
		for i, p := range q.Phases {
			phases[i] = int16(p)
		}
		add("phase = ANY ($)", phases)
	}
	if q.Labels != "" {
		add("string_to_array(labels, chr(10)) @> $::text[]", strings.Split(stored(string(q.Labels)), "\n"))
	}
	if q.CreatedFrom != 0 {
		add("created_at >= $", int64(q.CreatedFrom))
	}
	if q.CreatedBefore != 0 {
		add("created_at < $", int64(q.CreatedBefore))
	}
	if q.Parent != (core.RunID{}) {
		add("parent = $", [16]byte(q.Parent))
	}
	if q.Top {
		all = append(all, "parent IS NULL")
	}
	if q.Stuck {
		bodies := newUUIDs(len(q.Bodies))
		for id := range q.Bodies {
			bodies = append(bodies, id)
		}
		aside := "wake > 0 AND wake = " + strconv.Itoa(int(journal.WakeSetAside))
		add("ended_at = 0 AND ("+aside+" OR id = ANY ($))", bodies)
	}
	if len(all) > 0 {
		where = " WHERE " + strings.Join(all, " AND ")
	}
	return where, args
}

const stepsText = "SELECT run, step, name, kind, phase, reason, attempt, scheduled_at, ended_at, next_at, deadline," +
	" message" +
	" FROM {schema}.steps_data WHERE run = ANY ($1) ORDER BY run, step"

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
