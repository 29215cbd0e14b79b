package visibility

import (
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Subject is a workflow as conditions see it.
type Subject struct {
	ID, Run, Type, Queue             string
	Status                           enumspb.WorkflowExecutionStatus
	Start, Execution, Close          time.Time // Close is zero while it is open
	Length, Size                     int64
	Parent, ParentRun, Root, RootRun string
	Attributes                       map[string]*commonpb.Payload
}

// StatusOf returns the status of a run in a phase.
func StatusOf(phase core.RunPhase) enumspb.WorkflowExecutionStatus {
	switch phase {
	case core.RunSucceeded:
		return enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	case core.RunFailed:
		return enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	case core.RunCancelled:
		return enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	case core.RunTerminated:
		return enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	case core.RunContinued:
		return enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
	case core.RunTimedOut:
		return enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
	default:
		return enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
}

// byRow reports whether a field is among those that lists of runs have.
func byRow(field string) bool {
	switch field {
	case fieldID, fieldRun, fieldType, fieldStatus, fieldStart, fieldClose:
		return true
	default:
		return false
	}
}

// Needs reports whether some conditions are about what lists of runs do not have.
func (f *Filter) Needs() bool { return f.root != nil && f.root.needs() }

func (n *node) needs() bool {
	return n.op == "" && !byRow(n.field) || slices.ContainsFunc(n.kids, (*node).needs)
}

// Row reports whether a workflow may be selected by what lists of runs have of it.
func (f *Filter) Row(w *Subject) bool {
	if f.root == nil {
		return true
	}
	_, may := f.root.holds(w, false)
	return may
}

// Selects reports whether a workflow is selected.
func (f *Filter) Selects(w *Subject) bool {
	if f.root == nil {
		return true
	}
	is, _ := f.root.holds(w, true)
	return is
}

// holds reports whether a part of a query holds for a workflow, and whether it may: both are the same where whole says
// that all of the workflow is known.
func (n *node) holds(w *Subject, all bool) (is, may bool) {
	switch n.op {
	case "NOT":
		is, may = n.kids[0].holds(w, all)
		return !may, !is
	case "AND", "OR":
		is, may = n.op == "AND", n.op == "AND"
		for _, kid := range n.kids {
			kidIs, kidMay := kid.holds(w, all)
			if n.op == "AND" {
				is, may = is && kidIs, may && kidMay
			} else {
				is, may = is || kidIs, may || kidMay
			}
		}
		return is, may
	}
	if !all && !byRow(n.field) {
		return false, true
	}
	is = n.condition.holds(w.values(n.field))
	return is, is
}

// holds reports whether a condition holds for the values of its field: for one of them, or for none where it says so.
func (c *condition) holds(have []value) bool {
	some := func(fn func(value) bool) bool { return slices.ContainsFunc(have, fn) }
	among := func(v value) bool {
		return slices.ContainsFunc(c.values, func(w value) bool { return v.compare(w) == 0 })
	}
	first := func(holds func(order int) bool) bool {
		return some(func(v value) bool { return holds(v.compare(c.values[0])) })
	}
	starts := func(v value) bool { return strings.HasPrefix(v.text, c.values[0].text) }
	switch c.op {
	case "=", "IN":
		return some(among)
	case "!=", "NOT IN":
		return len(have) > 0 && !some(among)
	case "STARTS_WITH":
		return some(starts)
	case "NOT STARTS_WITH":
		return len(have) > 0 && !some(starts)
	case "<":
		return first(func(order int) bool { return order < 0 })
	case "<=":
		return first(func(order int) bool { return order <= 0 })
	case ">":
		return first(func(order int) bool { return order > 0 })
	case ">=":
		return first(func(order int) bool { return order >= 0 })
	case "IS NULL":
		return len(have) == 0
	default: // IS NOT NULL
		return len(have) > 0
	}
}

// values returns the values of a field of a workflow.
func (w *Subject) values(field string) []value {
	text := func(s string) []value {
		if s == "" {
			return nil
		}
		return []value{{text: s}}
	}
	at := func(t time.Time) []value {
		if t.IsZero() {
			return nil
		}
		return []value{whole(t.UnixNano())}
	}
	switch field {
	case fieldID:
		return text(w.ID)
	case fieldRun:
		return text(w.Run)
	case fieldType:
		return text(w.Type)
	case fieldQueue:
		return text(w.Queue)
	case fieldStatus:
		return []value{whole(int64(w.Status))}
	case fieldStart:
		return at(w.Start)
	case fieldExecution:
		return at(w.Execution)
	case fieldClose:
		return at(w.Close)
	case fieldDuration:
		if w.Close.IsZero() {
			return nil
		}
		return []value{whole(int64(w.Close.Sub(w.Execution)))}
	case fieldLength:
		return []value{whole(w.Length)}
	case fieldSize:
		return []value{whole(w.Size)}
	case fieldParent:
		return text(w.Parent)
	case fieldParentRun:
		return text(w.ParentRun)
	case fieldRoot:
		return text(w.Root)
	case fieldRootRun:
		return text(w.RootRun)
	default:
		kind, _ := typeOf(field)
		return stored(kind, w.Attributes[field].GetData())
	}
}

// open are the phases of runs that have not ended.
var open = []core.RunPhase{core.RunPending, core.RunRunning, core.RunWaiting, core.RunPaused}

var closed = []core.RunPhase{
	core.RunSucceeded, core.RunFailed, core.RunCancelled, core.RunTerminated, core.RunContinued, core.RunTimedOut,
}

// Query returns a query for runs that finds all those that the filter may select, and as few others as it can tell.
func (f *Filter) Query() journal.Query {
	var q journal.Query
	for _, c := range f.needed() {
		switch {
		case c.field == fieldID && c.op == "=":
			q.WorkflowID = c.values[0].text
		case c.field == fieldType && c.op == "=":
			q.Workflow = c.values[0].text
		case c.field == fieldStatus && q.Phases == nil:
			for _, phase := range slices.Concat(open, closed) {
				if c.holds((&Subject{Status: StatusOf(phase)}).values(fieldStatus)) {
					q.Phases = append(q.Phases, phase)
				}
			}
		case c.field == fieldStart && (c.op == ">" || c.op == ">="):
			q.CreatedFrom = max(q.CreatedFrom, policy.At(time.Unix(0, c.values[0].exact)))
		}
	}
	return q
}

// needed returns the conditions that hold for each workflow which is selected.
func (f *Filter) needed() (out []*condition) {
	var add func(n *node)
	add = func(n *node) {
		switch n.op {
		case "":
			out = append(out, &n.condition)
		case "AND":
			for _, kid := range n.kids {
				add(kid)
			}
		}
	}
	if f.root != nil {
		add(f.root)
	}
	return out
}

func (f *Filter) add(field, op string, values ...value) {
	one := &node{condition: condition{field: field, op: op, values: values}}
	if f.root == nil {
		f.root = &node{op: "AND"}
	}
	f.root.kids = append(f.root.kids, one)
}

// HasID adds the condition that a workflow has an id.
func (f *Filter) HasID(id string) { f.add(fieldID, "=", value{text: id}) }

// HasType adds the condition that a workflow is of a type.
func (f *Filter) HasType(name string) { f.add(fieldType, "=", value{text: name}) }

// HasStatus adds the condition that a workflow has a status.
func (f *Filter) HasStatus(status enumspb.WorkflowExecutionStatus) {
	f.add(fieldStatus, "=", whole(int64(status)))
}

// IsClosed adds the condition that a workflow has ended, or that it has not.
func (f *Filter) IsClosed(closed bool) {
	op := "="
	if closed {
		op = "!="
	}
	f.add(fieldStatus, op, whole(int64(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)))
}

// StartedFrom adds the condition that a workflow was started at an instant or later.
func (f *Filter) StartedFrom(at time.Time) { f.add(fieldStart, ">=", whole(at.UnixNano())) }

// StartedUntil adds the condition that a workflow was started until an instant.
func (f *Filter) StartedUntil(at time.Time) { f.add(fieldStart, "<=", whole(at.UnixNano())) }
