package engine

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// childPayload is what a definition says about the child run of a step.
type childPayload struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Close string          `json:"close"` // parent-close policy: cancel, terminate or abandon
}

var closePolicies = map[string]core.CloseChild{
	"": core.ChildCancel, "cancel": core.ChildCancel, "terminate": core.ChildTerminate, "abandon": core.ChildAbandon,
}

// startChild starts the run of a child step, in the batch of its parent's entry. A child that exists is not started again.
func (p *Partition) startChild(parent *run, e core.StartChild) {
	child, err := p.get(e.Child)
	if p.temporary(err) {
		return
	}
	if err == nil {
		if child.state.Phase.Closed() && child.state.Next == (core.RunID{}) {
			p.tellParent(child)
		}
		return
	}
	if f := p.launch(parent, e); f != nil {
		_ = p.advance(parent, nil, core.ChildEnded{
			Step: e.Step, Attempt: e.Attempt, Child: e.Child, Failure: f,
		})
	}
}

func (p *Partition) launch(parent *run, e core.StartChild) *policy.Failure {
	var payload childPayload
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return failed("child", fmt.Sprintf("the child's payload is broken: %v", err))
	}
	if parent.kind.Resolve == nil {
		return failed("child", fmt.Sprintf("there is no workflow %q: this kind of workflow has no child runs", payload.Name))
	}
	closing, ok := closePolicies[payload.Close]
	if !ok {
		return failed("child", fmt.Sprintf("%q is no parent-close policy: cancel, terminate or abandon", payload.Close))
	}
	src, err := parent.kind.Resolve(parent.state.Definition, payload.Name)
	if err != nil {
		return failed("child", fmt.Sprintf("there is no workflow %q: %v", payload.Name, err))
	}
	w, err := p.defs.use(p.ctx, &src)
	if p.temporary(err) {
		return nil
	}
	if err != nil {
		return failed("child", fmt.Sprintf("workflow %q cannot be used: %v", payload.Name, err))
	}
	input := []byte(payload.Input)
	if check := w.def.CheckInput; check != nil {
		if bug := guard("its input was checked", func() { input, err = check(input) }); bug != nil {
			p.logAside("a child run cannot begin", e.Child, bug)
			err = bug
		}
		if err != nil {
			return failed("input", err.Error())
		}
	}
	p.pipeline.define(&src)
	child := p.residents.create(e.Child, w.kind)
	err = p.advance(child, w.def, core.Start{
		Definition: src.ID, Workflow: src.Name, Input: input, ExecutionAt: e.Execution,
		Parent: core.Parent{Run: parent.id(), Step: e.Step, Attempt: e.Attempt, Close: closing}, Actor: "parent",
	})
	if err != nil {
		delete(p.residents.runs, e.Child)
		return failed("child", err.Error())
	}
	return nil
}

// tellParent reports the end of a child run to the step that started it.
func (p *Partition) tellParent(child *run) {
	s := child.state
	parent, err := p.get(s.Parent.Run)
	if p.unreadable(err, "the parent of a run cannot be read", "run", s.ID.String(), "parent", s.Parent.Run.String()) {
		return
	}
	_ = p.advance(parent, nil, core.ChildEnded{
		Step: s.Parent.Step, Attempt: s.Parent.Attempt, Child: s.ID, Phase: s.Phase, Output: s.Output, Failure: s.Failure,
	})
}

// notify tells the run that asked for it of the end of a chain, in the batch of that end. A run that has ended does not care
// any more.
func (p *Partition) notify(r *run) {
	s := r.state
	id, ok, err := p.openRun(s.Notify)
	if err == nil && !ok {
		return
	}
	var to *run
	if err == nil {
		to, err = p.get(id)
	}
	if p.unreadable(err, "a run that waits for another one cannot be read", "run", s.ID.String(), "waits", s.Notify) {
		return
	}
	first := s.Chain.First
	if first == (core.RunID{}) {
		first = s.ID
	}
	_ = p.advance(to, nil, core.SignalReceived{Name: core.SignalEnded(s.WorkflowID), ID: first.String(), Payload: null})
}

// stopChild applies an operation to a child run, or to the run that goes on for it in its chain.
func (p *Partition) stopChild(parent *run, e core.StopChild) {
	child, err := p.current(e.Child)
	if p.unreadable(err, "a child run cannot be read", "run", e.Child.String(), "parent", parent.id().String()) {
		return
	}
	if child.state.Phase.Closed() {
		return // its parent was told when it ended
	}
	op := e.Op
	switch child.state.Parent.Close {
	case core.ChildTerminate:
		op = core.OpTerminate
	case core.ChildAbandon:
		// It goes on by itself; for the parent it is over.
		link := child.state.Parent
		_ = p.advance(parent, nil, core.TaskStopped{Step: link.Step, Attempt: link.Attempt, Abandoned: true})
		return
	case core.ChildCancel:
	}
	_ = p.advance(child, nil, core.Operation{Op: op, Step: core.NoStep, Actor: "parent", Reason: "the parent run stopped its step"})
}

// boundChild moves the deadline that a child run has from its parent.
func (p *Partition) boundChild(parent *run, e core.BoundChild) {
	child, err := p.current(e.Child)
	if p.unreadable(err, "a child run cannot be read", "run", e.Child.String(), "parent", parent.id().String()) {
		return
	}
	to, moves := child.state.Inherits(e.Was, e.Is)
	if !moves || child.state.Phase.Closed() {
		return
	}
	if to == 0 {
		to = policy.FarFuture
	}
	_ = p.advance(child, nil, core.Operation{
		Op: core.OpExtend, Step: core.NoStep, Limit: policy.LimitExecution, To: to, Actor: "parent", Reason: "the parent run's deadline moved",
	})
}
