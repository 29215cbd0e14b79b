package visibility

import (
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// Subject is a workflow as conditions see it.
type Subject struct {
	ID, Run, Type, Queue    string
	Status                  enumspb.WorkflowExecutionStatus
	Start, Execution, Close time.Time // Close is zero while it is open
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

// byRow reports whether a condition can be decided by what lists of runs have.
func (c *condition) byRow() bool { return c.field != fieldQueue && c.field != fieldExecution }

// Needs reports whether some conditions are about what lists of runs do not have.
func (f *Filter) Needs() bool {
	return slices.ContainsFunc(f.conditions, func(c condition) bool { return !c.byRow() })
}

// Row reports whether a workflow may be selected by what lists of runs have of it.
func (f *Filter) Row(w *Subject) bool { return f.all(w, false) }

// Selects reports whether a workflow is selected.
func (f *Filter) Selects(w *Subject) bool { return f.all(w, true) }

func (f *Filter) all(w *Subject, whole bool) bool {
	for i := range f.conditions {
		if c := &f.conditions[i]; (whole || c.byRow()) && !c.holds(w) {
			return false
		}
	}
	return true
}

func (c *condition) holds(w *Subject) bool {
	among := false
	switch c.field {
	case fieldID:
		among = slices.Contains(c.texts, w.ID)
	case fieldRun:
		among = slices.Contains(c.texts, w.Run)
	case fieldType:
		among = slices.Contains(c.texts, w.Type)
	case fieldQueue:
		among = slices.Contains(c.texts, w.Queue)
	case fieldStatus:
		among = slices.Contains(c.status, w.Status)
	case fieldStart:
		return c.compare(w.Start)
	case fieldExecution:
		return c.compare(w.Execution)
	case fieldClose:
		return !w.Close.IsZero() && c.compare(w.Close)
	}
	return among == (c.op == "=" || c.op == "IN")
}

// compare compares an instant.
func (c *condition) compare(at time.Time) bool {
	first := at.Compare(c.times[0])
	switch c.op {
	case "=":
		return first == 0
	case "!=":
		return first != 0
	case "<":
		return first < 0
	case "<=":
		return first <= 0
	case ">":
		return first > 0
	case ">=":
		return first >= 0
	default:
		among := slices.ContainsFunc(c.times, at.Equal)
		return among == (c.op == "IN")
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
	for i := range f.conditions {
		c := &f.conditions[i]
		switch {
		case c.field == fieldID && c.op == "=":
			q.WorkflowID = c.texts[0]
		case c.field == fieldType && c.op == "=":
			q.Workflow = c.texts[0]
		case c.field == fieldStatus && q.Phases == nil:
			for _, phase := range slices.Concat(open, closed) {
				if c.holds(&Subject{Status: StatusOf(phase)}) {
					q.Phases = append(q.Phases, phase)
				}
			}
		case c.field == fieldStart && (c.op == ">" || c.op == ">="):
			q.CreatedFrom = max(q.CreatedFrom, policy.At(c.times[0]))
		}
	}
	return q
}

func (f *Filter) add(c condition) { f.conditions = append(f.conditions, c) }

// HasID adds the condition that a workflow has an id.
func (f *Filter) HasID(id string) { f.add(condition{field: fieldID, op: "=", texts: []string{id}}) }

// HasType adds the condition that a workflow is of a type.
func (f *Filter) HasType(name string) {
	f.add(condition{field: fieldType, op: "=", texts: []string{name}})
}

// HasStatus adds the condition that a workflow has a status.
func (f *Filter) HasStatus(status enumspb.WorkflowExecutionStatus) {
	f.add(condition{field: fieldStatus, op: "=", status: []enumspb.WorkflowExecutionStatus{status}})
}

// IsClosed adds the condition that a workflow has ended, or that it has not.
func (f *Filter) IsClosed(closed bool) {
	c := condition{field: fieldStatus, op: "=", status: []enumspb.WorkflowExecutionStatus{
		enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}}
	if closed {
		c.op = "!="
	}
	f.add(c)
}

// StartedFrom adds the condition that a workflow was started at an instant or later.
func (f *Filter) StartedFrom(at time.Time) {
	f.add(condition{field: fieldStart, op: ">=", times: []time.Time{at}})
}

// StartedUntil adds the condition that a workflow was started until an instant.
func (f *Filter) StartedUntil(at time.Time) {
	f.add(condition{field: fieldStart, op: "<=", times: []time.Time{at}})
}
