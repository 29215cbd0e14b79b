package history

import (
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
)

// Turn is a workflow task that was answered.
type Turn struct {
	Started int64 // the id of the event with which it began; the next event says how it went
	Seen    int   // the entries that its worker knew
	Number  int   // how many were answered before
	Began   core.Time
}

// TurnAt returns the task that an event ends, or with which it began; false: there is none.
func (f *Fold) TurnAt(event int64) (Turn, bool) {
	for _, t := range f.turns {
		if event == t.Started || event == t.Started+1 {
			return t, true
		}
	}
	return Turn{}, false
}

// originField is the field, unknown to the protocol, in which the input of a run that was reset has the run that it
// comes from in the end: its workers derive ids from that one. Behind it stands the run before it in its chain, since
// runs that follow have the same input.
const originField protowire.Number = 1002

// SetOrigin notes in the input of a run which one it comes from. before is the run before it in its chain.
func SetOrigin(start *workflowservice.StartWorkflowExecutionRequest, origin, before core.RunID) {
	convert.WithField(start, originField, append(origin[:len(origin):len(origin)], before[:]...))
}

// originOf returns the run that a run with such an input comes from: itself, unless it was reset.
func originOf(run core.RunID, start *workflowservice.StartWorkflowExecutionRequest, before core.RunID) core.RunID {
	var id, previous core.RunID
	raw := convert.Field(start, originField)
	if len(raw) != len(id)+len(previous) {
		return run
	}
	copy(id[:], raw)
	copy(previous[:], raw[len(id):])
	if previous != before {
		return run
	}
	return id
}

// Origin returns the run that the run comes from in the end: itself, unless it was reset.
func (f *Fold) Origin() core.RunID { return f.origin }

// resetFrom tells which run was reset, and which has come of it: this one, or the one that was reset after that.
func resetFrom(f *Fold, a *historypb.WorkflowTaskFailedEventAttributes, base string) {
	if f.reset != nil {
		f.reset.NewRunId = base
	}
	a.BaseRunId, a.NewRunId = base, f.Run.String()
	f.reset = a
}
