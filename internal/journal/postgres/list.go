package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (s *storage) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	return s.list(ctx, q, nil)
}

// list returns rows of some partitions; nil: of all.
func (s *storage) list(ctx context.Context, q journal.Query, partitions []int32) (page journal.Page, err error) {
	if q.Limit <= 0 {
		q.Limit = journal.DefaultLimit
	}
	text, args := listQuery(q, partitions)
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

// conditions of a list, with their arguments.
type conditions struct {
	all  []string
	args []any
}

// add adds a condition. Each $ in it means the next argument.
func (c *conditions) add(condition string, args ...any) {
	for _, a := range args {
		c.args = append(c.args, a)
		condition = strings.Replace(condition, "$", "\x00"+strconv.Itoa(len(c.args)), 1)
	}
	c.all = append(c.all, strings.ReplaceAll(condition, "\x00", "$"))
}

// where returns the conditions as a text.
func (c *conditions) where() string {
	if len(c.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.all, " AND ")
}

// listQuery returns the query of a list. It is written so that its rows come out of an index in their order, and
// reading stops with the page.
func listQuery(q journal.Query, partitions []int32) (text string, args []any) {
	var c conditions
	if partitions != nil {
		c.add("partition = ANY ($::int[])", partitions)
	}
	c.named(&q)
	c.timed(&q)
	tables, order := "{schema}.runs_data", "id DESC"
	limit := " LIMIT " + strconv.Itoa(q.Limit+1)
	switch {
	case q.ByDeadline:
		c.add("ended_at = 0 AND deadline > 0")
		order = "deadline, id"
	case q.Retrying:
		c.add("ended_at = 0 AND wake <> " + strconv.Itoa(int(journal.WakeSetAside)))
		tables = "(SELECT DISTINCT run FROM (" + retriedText + ") s ORDER BY run DESC) retried JOIN " + tables +
			" ON id = run"
		order = "run DESC"
	case len(q.Phases) != 1 && (q.Workflow != "" || len(q.Phases) > 1 && !slices.Contains(q.Phases, core.RunSucceeded)):
		c.add("phase = one.phase") // the rows of each phase are in order
		if q.Workflow == "" {
			c.add("phase <> " + strconv.Itoa(int(core.RunSucceeded)))
		}
		c.args = append(c.args, phasesOf(q.Phases))
		tables = fmt.Sprintf("(SELECT DISTINCT unnest($%d::smallint[]) AS phase) one CROSS JOIN LATERAL (SELECT * FROM"+
			" {schema}.runs_data%s ORDER BY id DESC%s) runs_data", len(c.args), c.where(), limit)
		c.all = nil
		return "SELECT " + strings.Replace(runColumns, " phase,", " runs_data.phase,", 1) + " FROM " + tables +
			" ORDER BY " + order + limit, c.args
	}
	if q.ByDeadline && q.Retrying {
		c.add("wake <> " + strconv.Itoa(int(journal.WakeSetAside)) + " AND EXISTS (" + retriedText +
			" AND s.run = runs_data.id)")
	}
	if len(q.Phases) == 1 {
		c.add("phase = " + strconv.Itoa(int(q.Phases[0])))
	} else if len(q.Phases) > 0 {
		c.add("phase = ANY ($)", phasesOf(q.Phases))
	}
	return "SELECT " + runColumns + " FROM " + tables + c.where() + " ORDER BY " + order + limit, c.args
}

// phasesOf returns the numbers of phases; without phases, those of all. So one index by workflow, phase and id serves
// lists of some phases and of all: each phase is in order, ten reads cost 0.4 ms, and an open run has one entry less.
// An index by phase alone would be too slow: ten failed runs would be found by reading a million sleeping ones of
// another workflow.
func phasesOf(phases []core.RunPhase) []int16 {
	if len(phases) == 0 {
		for p := core.RunPending; p <= core.RunContinued; p++ {
			phases = append(phases, p)
		}
	}
	out := make([]int16, len(phases))
	for i, p := range phases {
		out[i] = int16(p)
	}
	return out
}

// named adds the conditions that are about names.
func (c *conditions) named(q *journal.Query) {
	if q.Workflow != "" {
		c.add("left(workflow, 200) = left($, 200) AND workflow = $", stored(q.Workflow), stored(q.Workflow))
	}
	if q.WorkflowID != "" {
		c.add("left(workflow_id, 200) = left($, 200) AND workflow_id = $", stored(q.WorkflowID), stored(q.WorkflowID))
	}
	if q.Labels != "" {
		c.add("string_to_array(labels, chr(10)) @> $::text[]", strings.Split(stored(string(q.Labels)), "\n"))
	}
	if q.Parent != (core.RunID{}) {
		c.add("parent = $", [16]byte(q.Parent))
	}
	if q.Top {
		c.add("parent IS NULL")
	}
	if q.Stuck {
		bodies := newUUIDs(len(q.Bodies))
		for id := range q.Bodies {
			bodies = append(bodies, id)
		}
		aside := "wake > 0 AND wake = " + strconv.Itoa(int(journal.WakeSetAside))
		c.add("ended_at = 0 AND ("+aside+" OR id = ANY ($))", bodies)
	}
}

// timed adds the conditions that are about instants, and about the place in the list.
func (c *conditions) timed(q *journal.Query) {
	switch {
	case q.After == core.RunID{}:
	case q.ByDeadline:
		c.add("(deadline, id) > ($, $)", int64(q.AfterDeadline), [16]byte(q.After))
	default:
		c.add("id < $", [16]byte(q.After))
	}
	if q.CreatedFrom != 0 {
		c.add("created_at >= $", int64(q.CreatedFrom))
	}
	if q.CreatedBefore != 0 {
		c.add("created_at < $", int64(q.CreatedBefore))
	}
	if q.DeadlineBefore != 0 {
		c.add("deadline < $", int64(q.DeadlineBefore))
	}
}
