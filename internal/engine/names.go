package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// startKey is an idempotency key. It belongs to a workflow: two workflows may use the same key for different runs.
type startKey struct{ workflow, key string }

// existingNamed looks for the open run with a request's workflow id.
func (s *residents) existingNamed(req *StartRequest) (Started, error) {
	id, found, err := s.openRun(req.WorkflowID)
	switch {
	case err != nil:
		return Started{}, failure("start", req.WorkflowID, err)
	case !found:
		return Started{}, nil
	case req.OnConflict == ConflictUse:
		return s.existingOpen(req, id)
	default:
		return Started{}, &Error{
			Code: CodeConflict, Op: "start", ID: req.WorkflowID,
			Err:  AlreadyStarted{Run: id, Open: true},
			Hint: "wait until it has ended, use the open run, or choose another workflow id",
		}
	}
}

// existingByKey answers a start whose key has started a run before. If the input is the same, the caller repeats
// itself, and gets that run or the one that followed it. If the input differs, the caller uses one key for two
// things, which is an error.
func (s *residents) existingByKey(req *StartRequest, id core.RunID) (Started, error) {
	o, known, err := s.originOf(id)
	if known && o.first != (core.RunID{}) {
		o, known, err = s.originOf(o.first) // the caller's input is that of the first run of the chain
	}
	if err != nil {
		return Started{}, failure("start", req.Key, err)
	}
	if known && !sameJSON(o.input, req.Input) {
		return Started{}, otherInput(req, id)
	}
	return Started{Run: id, Existing: true}, nil
}

// otherInput refuses a start whose key has started a run with another input.
func otherInput(req *StartRequest, run core.RunID) error {
	return &Error{
		Code: CodeConflict, Op: "start", ID: fmt.Sprintf("with the key %q", req.Key),
		Err:  fmt.Errorf("this key has started run %s of workflow %q with another input", run, req.Definition.Name),
		Hint: "start with the input of that run to find it, or choose another key for a new run",
	}
}

// existingOpen answers a start with the open run that has its workflow id. The run must be of the same workflow.
func (s *residents) existingOpen(req *StartRequest, id core.RunID) (Started, error) {
	o, known, err := s.originOf(id)
	if err != nil {
		return Started{}, failure("start", req.WorkflowID, err)
	}
	if known && o.workflow != req.Definition.Name {
		return Started{}, &Error{
			Code: CodeConflict, Op: "start", ID: req.WorkflowID,
			Err: fmt.Errorf("the open run %s has this workflow id and is of workflow %q, not of %q",
				id, o.workflow, req.Definition.Name),
			Hint: "choose another workflow id",
		}
	}
	return Started{Run: id, Existing: true}, nil
}

// origin holds the data with which a run was started.
type origin struct {
	workflow string
	input    []byte
	first    core.RunID // the first run of its chain; zero: the run itself
}

// originOf returns what a run was started with. known is false if the run's history cannot be read: it was deleted
// while its chain goes on, or it is damaged. An error is a failure of the storage, which may be gone at the next
// try.
func (s *residents) originOf(id core.RunID) (o origin, known bool, err error) {
	if r := s.runs[id]; r != nil {
		return origin{r.state.Workflow, r.state.Input, r.state.Chain.First}, true, nil
	}
	h, err := s.history(id)
	if errors.Is(err, journal.ErrNotFound) || errors.Is(err, journal.ErrCorrupt) {
		return origin{}, false, nil
	}
	if err != nil || len(h.Entries) == 0 || len(h.Entries[0].Records) == 0 {
		return origin{}, false, err
	}
	created, ok := h.Entries[0].Records[0].(core.RunCreated)
	return origin{created.Workflow, created.Input, created.Chain.First}, ok, nil
}

// sameJSON reports whether two inputs mean the same. Spaces and the order of fields do not matter. An empty input
// means null.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, okX := jsonValue(a)
	y, okY := jsonValue(b)
	return okX && okY && reflect.DeepEqual(x, y)
}

// jsonValue decodes JSON. Numbers stay text, so that large ones are compared exactly.
func jsonValue(text []byte) (v any, ok bool) {
	if len(text) == 0 {
		return nil, true
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// keyRun finds the newest run of the chain that an idempotency key has started.
func (s *residents) keyRun(key startKey) (core.RunID, bool, error) {
	if id, ok := s.byKey[key]; ok {
		return id, true, nil
	}
	return s.lookup(journal.Lookup{Workflow: key.workflow, Key: key.key})
}

// openRun finds the open run of a workflow id.
func (s *residents) openRun(workflowID string) (core.RunID, bool, error) {
	if id, ok := s.byName[workflowID]; ok {
		return id, true, nil
	}
	id, ok, err := s.lookup(journal.Lookup{WorkflowID: workflowID})
	if err != nil || !ok {
		return core.RunID{}, false, err
	}
	// The view may be old. A run in memory that still had this workflow id would have been found above.
	if s.runs[id] != nil {
		return core.RunID{}, false, nil
	}
	return id, true, nil
}

// asideNamed returns why a run with that workflow id is set aside of which the view has nothing, or nil if there is
// none.
func (s *residents) asideNamed(workflowID string) error {
	for _, a := range s.aside {
		if a.missingRow != nil && a.missingRow.WorkflowID == workflowID {
			return a
		}
	}
	return nil
}

// checkReopen refuses to open a closed run again if another open run has its workflow id.
func (s *residents) checkReopen(of *run, in core.Input) error {
	op, ok := in.(core.Operation)
	r := of.state
	if !ok || (op.Op != core.OpRetryRun && op.Op != core.OpRetryStep) || r.WorkflowID == "" || !r.Phase.Closed() {
		return nil
	}
	id, taken, err := s.openRun(r.WorkflowID)
	if err != nil {
		return failure(op.Op.String(), r.ID.String(), err)
	}
	if !taken || id == r.ID {
		return nil
	}
	return &Error{
		Code: CodeConflict, Op: op.Op.String(), ID: r.ID.String(), Hint: "wait until that run has ended",
		Err: fmt.Errorf("its workflow id %q is in use by the open run %s", r.WorkflowID, id),
	}
}

// replaced terminates a run whose workflow id another one is to have.
func replaced(actor string) core.Operation {
	return core.Operation{
		Op: core.OpTerminate, Step: core.NoStep, Actor: actor, Reason: "another run of the workflow id was started",
	}
}
