package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// retrying is the condition for a step that backs off or is tried again; see journal.StepRow.Retrying.
var retrying = fmt.Sprintf("s.ended_at = 0 AND (s.attempt > 1 OR s.phase = %d)", core.StepBackingOff)

// listIndexes are the indexes for lists. Nearly all runs succeed, and resting ones are often pending, so both are left
// out if possible.
var listIndexes = fmt.Sprintf(`
CREATE INDEX runs_phase ON runs_data (phase) WHERE phase NOT IN (%[4]d, %[1]d);
CREATE INDEX runs_workflow ON runs_data (workflow, phase);
CREATE INDEX runs_late ON runs_data (created_at) WHERE %[3]s;
CREATE INDEX runs_parent ON runs_data (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_deadline ON runs_data (deadline) WHERE ended_at = 0 AND deadline > 0;
CREATE INDEX steps_retrying ON steps_data (run) WHERE %[2]s;
`, core.RunSucceeded, strings.ReplaceAll(retrying, "s.", ""), strings.ReplaceAll(late, "r.", ""), core.RunPending)

// late is the condition for a run that was not created at about the instant in its id: its start waited for a partition
// without an owner, or a clock was set. There are few of them; those of a span of time are found by their ids.
var late = fmt.Sprintf("r.created_at IS NOT NULL AND hex(substr(r.id, 1, 6)) NOT BETWEEN"+
	" printf('%%012X', r.created_at / 1000 - %[1]d) AND printf('%%012X', r.created_at / 1000 + %[1]d)",
	soon.Milliseconds())

// soon is how far the instant in the id of a run may be from that of its creation, unless it is late.
const soon = time.Hour

const (
	// firstRows and scanRows bound how many rows List reads in one snapshot: at first few, since most pages are found
	// among them.
	firstRows = 2_000
	scanRows  = 50_000
)

// way is how the rows of a list are found: in the order of the list, so that reading can stop with the page.
type way struct {
	from  string // the tables, of which r has the runs
	where string // the condition that the index needs
	order string
	args  []any
	parts bool       // many rows may have to be read that do not match
	first core.RunID // the lowest id that it may find; zero: there is no bound
}

// List implements journal.Journal. If it has to read many rows, it reads them in parts, because a long snapshot would
// keep the write-ahead log from being copied into the file.
func (j *Journal) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	if q.Limit <= 0 {
		q.Limit = journal.DefaultLimit
	}
	// A run is created when its id is made, or later, unless a clock was set back between the two.
	if begin := core.NewRunID(q.CreatedBefore.Add(soon), 0, 0, 0); q.CreatedBefore != 0 && !q.ByDeadline &&
		(q.After == core.RunID{} || slices.Compare(begin[:], q.After[:]) < 0) {
		q.After = begin
	}
	var page journal.Page
	for rows := firstRows; ; rows = scanRows {
		next, err := j.listPart(ctx, q, rows, &page)
		if err != nil || page.More || next == (core.RunID{}) {
			return page, err
		}
		q.After = next
	}
}

// listPart adds matching runs to the page. If there may be more than it has read, it returns the last one that it has.
func (j *Journal) listPart(
	ctx context.Context, q journal.Query, rows int, page *journal.Page,
) (next core.RunID, err error) {
	err = j.read(ctx, func(c *conn) error {
		c.SetInterrupt(ctx.Done())
		defer c.SetInterrupt(nil)
		ways, err := waysOf(c, &q)
		if err != nil {
			return j.wrap("list", err)
		}
		if ways[0].parts {
			if next, err = partEnd(c, q.After, rows); err != nil {
				return j.wrap("list", err)
			}
			if slices.Compare(next[:], ways[0].first[:]) < 0 {
				next = core.RunID{} // this part is the last one
			}
		}
		for i := range ways {
			if err := listRows(c, &q, &ways[i], next, page); err != nil {
				return j.wrap("list", err)
			}
		}
		if len(ways) > 1 { // each gave its first rows
			slices.SortFunc(page.Runs, q.Order)
		}
		if page.More = len(page.Runs) > q.Limit; page.More {
			page.Runs = page.Runs[:q.Limit]
		}
		return nil
	})
	return next, err
}

// waysOf chooses how to find the rows: by the index that leaves out most of those that do not match. Where there are
// several ways, each finds other rows.
func waysOf(c *conn, q *journal.Query) ([]way, error) {
	switch {
	case q.ByDeadline, q.WorkflowID != "", q.Stuck, q.Labels != "", q.Retrying, q.Parent != (core.RunID{}):
		return []way{wayOf(q)}, nil
	case q.Workflow != "" || len(q.Phases) > 0 && !slices.Contains(q.Phases, core.RunSucceeded):
		ways, err := phaseWays(c, q)
		return inSpan(q, ways), err
	}
	return inSpan(q, []way{{from: "runs_data r", order: byID, parts: true}}), nil
}

// byID is the order of nearly all lists.
const byID = "r.id DESC"

// wayOf returns the way of a query that one index answers.
func wayOf(q *journal.Query) way {
	switch {
	case q.ByDeadline:
		return way{
			from: "runs_data r INDEXED BY runs_deadline", where: "r.ended_at = 0 AND r.deadline > 0",
			order: "r.deadline, r.id",
		}
	case q.WorkflowID != "" || q.Stuck: // the planner finds these indexes itself
		return way{from: "runs_data r", order: byID}
	case q.Labels != "":
		return labelWay(q.Labels)
	case q.Retrying:
		return way{
			from: "steps_data s INDEXED BY steps_retrying CROSS JOIN runs_data r ON r.id = s.run", where: retrying,
			order: "s.run DESC",
		}
	}
	return way{from: "runs_data r INDEXED BY runs_parent", where: "r.parent IS NOT NULL", order: byID}
}

// inSpan limits the ids of runs that were created in a span of time. Runs that were created late have lower ones, and
// are found in a separate way.
func inSpan(q *journal.Query, ways []way) []way {
	if q.CreatedFrom == 0 {
		return ways
	}
	first := core.NewRunID(q.CreatedFrom.Add(-soon), 0, 0, 0)
	for i := range ways {
		ways[i].first = first
	}
	return append(ways, way{
		from: "runs_data r INDEXED BY runs_late", where: late + " AND r.id < ?", args: []any{first[:]},
		order: "r.id DESC",
	})
}

// phaseWays finds the rows of each phase separately, because only these are sorted.
func phaseWays(c *conn, q *journal.Query) (all []way, err error) {
	phases := slices.Clone(q.Phases)
	for p := core.RunPending; len(q.Phases) == 0 && p <= core.RunContinued; p++ {
		phases = append(phases, p)
	}
	slices.Sort(phases)
	for _, p := range slices.Compact(phases) {
		w := way{from: "runs_data r INDEXED BY runs_workflow", where: "r.phase = ?", args: []any{p}, order: byID}
		switch {
		case q.Workflow != "":
			all = append(all, w)
		case p != core.RunPending:
			w.from = "runs_data r INDEXED BY runs_phase"
			w.where += fmt.Sprintf(" AND r.phase NOT IN (%d, %d)", core.RunPending, core.RunSucceeded)
			all = append(all, w)
		default:
			if all, err = pendingWays(c, all, w); err != nil {
				return nil, err
			}
		}
	}
	if len(all) == 0 { // nothing is pending
		all = append(all, way{from: "runs_data r", where: "0", order: byID})
	}
	return all, nil
}

// pendingWays adds a way for each workflow that has pending runs: these are in no index of phases.
func pendingWays(c *conn, all []way, w way) ([]way, error) {
	const workflows = "WITH RECURSIVE w (id) AS (SELECT min(workflow) FROM runs_data UNION ALL" +
		" SELECT (SELECT min(workflow) FROM runs_data WHERE workflow > w.id) FROM w WHERE w.id IS NOT NULL)" +
		" SELECT id FROM w WHERE EXISTS (SELECT 1 FROM runs_data r WHERE r.workflow = w.id AND r.phase = ?)"
	w.where += " AND r.workflow = ?"
	err := query(c, workflows,
		func(s *sqlite.Stmt) { bindAll(s, w.args) },
		func(s *sqlite.Stmt) (bool, error) {
			one := w
			one.args = append(slices.Clone(w.args), s.ColumnInt64(0))
			all = append(all, one)
			return false, nil
		})
	return all, err
}

// labelWay finds the rows by the first of some labels.
func labelWay(labels core.Labels) way {
	line, _, _ := strings.Cut(string(labels), "\n")
	key, value, _ := strings.Cut(line, "=")
	return way{
		from:  "labels l INDEXED BY labels_value CROSS JOIN runs_data r ON r.id = l.run",
		where: "l.key = ? AND l.value = ?", args: []any{key, value}, order: "l.run DESC",
	}
}

// listRows adds the rows that one way finds, up to one more than the page holds. end is the last run to look at; zero
// if there is no bound.
func listRows(c *conn, q *journal.Query, w *way, end core.RunID, page *journal.Page) error {
	var b strings.Builder
	b.WriteString("SELECT " + runColumns + " FROM " + w.from + runNames + " WHERE 1")
	if w.where != "" {
		b.WriteString(" AND " + w.where)
	}
	args := slices.Clone(w.args)
	if slices.Compare(end[:], w.first[:]) < 0 {
		end = w.first
	}
	if end != (core.RunID{}) {
		b.WriteString(" AND r.id >= ?")
		args = append(args, end[:])
	}
	args = listWhere(&b, q, w, args)
	b.WriteString(" ORDER BY " + w.order)
	room := q.Limit + 1
	if w.parts { // each of several ways may fill the page
		room -= len(page.Runs)
	}
	var last core.RunID
	return query(c, b.String(),
		func(s *sqlite.Stmt) { bindAll(s, args) },
		func(s *sqlite.Stmt) (bool, error) {
			var id core.RunID
			if s.ColumnBytes(0, id[:]); id == last {
				return false, nil // a run with several steps that are retried
			}
			last = id
			page.Runs = append(page.Runs, scanRun(s))
			room--
			return room <= 0, nil
		})
}

func bindAll(s *sqlite.Stmt, args []any) {
	for i, a := range args {
		switch a := a.(type) {
		case []byte:
			s.BindBytes(i+1, a)
		case string:
			s.BindText(i+1, a)
		case int64:
			s.BindInt64(i+1, a)
		case core.RunPhase:
			s.BindInt64(i+1, int64(a))
		case core.Time:
			s.BindInt64(i+1, int64(a))
		}
	}
}

// partEnd returns the id that is that many rows after another one, in the list's order. It returns zero if there are
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

// listWhere adds what the query asks for.
func listWhere(b *strings.Builder, q *journal.Query, w *way, args []any) []any {
	add := func(condition string, more ...any) {
		b.WriteString(" AND " + condition)
		args = append(args, more...)
	}
	id := strings.TrimSuffix(w.order, " DESC") // the id in the table that is read in order
	switch {
	case q.After == core.RunID{}:
	case q.ByDeadline:
		add("(r.deadline, r.id) > (?, ?)", q.AfterDeadline, q.After[:])
	default:
		add(id+" < ?", q.After[:])
	}
	if q.Workflow != "" {
		add("r.workflow = (SELECT id FROM names WHERE name = ?)", q.Workflow)
	}
	if q.WorkflowID != "" {
		add("r.workflow_id = ?", q.WorkflowID)
	}
	if len(q.Phases) > 0 {
		b.WriteString(" AND r.phase IN (?" + strings.Repeat(", ?", len(q.Phases)-1) + ")")
		for _, p := range q.Phases {
			args = append(args, p)
		}
	}
	if q.CreatedFrom != 0 {
		first := core.NewRunID(q.CreatedFrom, 0, 0, 0)
		add("(r.created_at >= ? OR r.created_at IS NULL AND r.id >= ?)", q.CreatedFrom, first[:])
	}
	if q.CreatedBefore != 0 {
		first := core.NewRunID(q.CreatedBefore, 0, 0, 0)
		add("(r.created_at < ? OR r.created_at IS NULL AND r.id < ?)", q.CreatedBefore, first[:])
	}
	if q.DeadlineBefore != 0 {
		add("r.deadline < ?", q.DeadlineBefore)
	}
	if q.Parent != (core.RunID{}) {
		add("r.parent = ?", q.Parent[:])
	}
	if q.Top {
		add("r.parent IS NULL")
	}
	if q.Retrying {
		add(fmt.Sprintf("r.ended_at = 0 AND r.wake <> %d", journal.WakeSetAside))
		if id != "s.run" {
			add("EXISTS (SELECT 1 FROM steps_data s WHERE s.run = r.id AND " + retrying + ")")
		}
	}
	args = listLabels(b, q.Labels, args)
	if q.Stuck {
		args = listStuck(b, q.Bodies, args)
	}
	return args
}
