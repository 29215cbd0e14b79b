package engine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// childPayload is what a definition says about the child run of a step.
type childPayload struct {
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Close string          `json:"close"` // the fate of the child when the step stops: cancel, terminate or abandon
}

var closePolicies = map[string]core.CloseChild{
	"": core.ChildCancel, "cancel": core.ChildCancel, "terminate": core.ChildTerminate, "abandon": core.ChildAbandon,
}

// receive gives a message to the run it is for. That run lives in this partition. If the run is set aside, the message
// is kept for it.
func (p *Partition) receive(m *core.Message) {
	if start, ok := p.children.unborn.take(m.To); ok {
		p.beginUnborn(m.To, start)
	}
	var err error
	switch c := m.Content.(type) {
	case core.ChildStart:
		err = p.beginChild(m.To, &c)
	case core.ChildStop:
		err = p.stopChild(m.To, c.Op)
	case core.ChildBound:
		err = p.boundChild(m.To, c)
	case core.ChildAsk:
		err = p.askChild(m.To)
	case core.SignalReceived:
		err = p.signalNamed(m.Name, c)
	case core.ChildEnded:
		err = p.tellRun(m.To, c)
	case core.TaskStopped:
		err = p.tellRun(m.To, c)
	case core.RunStart:
		err = p.beginAsked(m.Name, &c)
	case core.RunStop:
		err = p.stopNamed(m.Name, c)
	case core.KeyedStart:
		p.beginKeyed(m.To, &c)
	case core.KeyedStarted:
		err = p.endClaim(&c)
	}
	if permanent(err) {
		p.keepMessage(m, err)
		return
	}
	p.unreadable(err, "the run that a message is for cannot be read", "run", m.To.String(), "workflow id", m.Name)
}

// tell gives an input to a run that a message is for. The run refuses an input that is out of date. An error means that
// the run is set aside.
func (p *Partition) tell(r *run, in core.Input) error {
	if err := p.advance(r, nil, in); permanent(err) {
		return err
	}
	return nil
}

// tellRun gives an input to a parent run.
func (p *Partition) tellRun(parent core.RunID, in core.Input) error {
	r, err := p.get(parent)
	if err != nil {
		return err
	}
	return p.tell(r, in)
}

// startChild starts the run of a child step. It first checks what can be checked here. If something is wrong, no
// child is made, and the attempt ends in the batch in which it began.
func (p *Partition) startChild(parent *run, e core.StartChild) {
	start, f := p.prepareChild(parent, e)
	switch {
	case p.handling.readErr != nil:
	case f != nil:
		p.send(core.Message{To: parent.id(), Content: core.ChildEnded{
			Step: e.Step, Attempt: e.Attempt, Child: e.Child, Failure: f,
		}})
	case p.owns(e.Child):
		parent.startsChildIn = p.pipeline.open.seq
		p.children.unborn.add(e.Child, start, p.pipeline.open.seq)
	default:
		p.send(core.Message{To: e.Child, Content: start})
	}
}

// prepareChild makes the message that starts a child run. The open batch stores the child's definition.
func (p *Partition) prepareChild(parent *run, e core.StartChild) (core.ChildStart, *policy.Failure) {
	var payload childPayload
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return core.ChildStart{}, permanentFailure("child",
			fmt.Sprintf("the payload of the child step cannot be read: %v", err))
	}
	if parent.kind.Resolve == nil {
		return core.ChildStart{}, permanentFailure("child",
			fmt.Sprintf("there is no workflow %q: this kind of workflow has no child runs", payload.Name))
	}
	depth := parent.state.Parent.Depth + 1
	if depth > p.cfg.MaxDepth {
		return core.ChildStart{}, permanentFailure("child", fmt.Sprintf(
			"a run may have at most %d runs above it, which start one another; does workflow %q start itself?",
			p.cfg.MaxDepth, payload.Name))
	}
	closing, ok := closePolicies[payload.Close]
	if !ok {
		return core.ChildStart{}, permanentFailure("child",
			fmt.Sprintf("unknown parent-close policy %q: use cancel, terminate or abandon", payload.Close))
	}
	src, err := parent.kind.Resolve(parent.state.Definition, payload.Name)
	if err != nil {
		return core.ChildStart{}, permanentFailure("child",
			fmt.Sprintf("there is no workflow %q: %v", payload.Name, err))
	}
	w, err := p.defs.use(p.ctx, &src)
	if p.noteTemporary(err) {
		return core.ChildStart{}, nil
	}
	if err != nil {
		return core.ChildStart{}, cannotUse(payload.Name, err)
	}
	input, err := checkInput(w.def, payload.Input)
	if isPanic(err) {
		p.logAside("a child run cannot begin", e.Child, err)
	}
	if err != nil {
		return core.ChildStart{}, permanentFailure("input", err.Error())
	}
	p.pipeline.define(&src)
	return core.ChildStart{
		Definition: src.ID, Workflow: src.Name, Input: input, Execution: e.Execution,
		Parent: core.Parent{
			Run: parent.id(), Step: e.Step, Attempt: e.Attempt, Close: closing,
			Top: parent.state.Top(), Depth: depth,
		},
		Queue: queueOfChild(&parent.state.Steps[e.Step]), Within: parent.state.TakenQueues(),
		Headers: parent.state.Headers,
	}, nil
}

// queueOfChild returns the queue that a child step names for its run.
func queueOfChild(s *core.Step) core.RunQueue {
	q := core.RunQueue{Key: s.ShareKey()}
	if s.Spec.Share != nil {
		q.Name = s.Spec.Share.Queue
	}
	if q != (core.RunQueue{}) {
		q.Priority = s.Spec.Priority
	}
	return q
}

func cannotUse(workflow string, err error) *policy.Failure {
	return permanentFailure("child", fmt.Sprintf("workflow %q cannot be used: %v", workflow, err))
}

// checkInput fills in the defaults of an input. It returns an error if the input is invalid, or if the check
// panicked.
func checkInput(def *core.Definition, input []byte) (out []byte, err error) {
	if def.CheckInput == nil {
		return input, nil
	}
	if bug := guard("its input was checked", func() { out, err = def.CheckInput(input) }); bug != nil {
		return nil, bug
	}
	return out, err
}

// beginChild starts a child run in this partition. If the child exists already, it is not started again.
func (p *Partition) beginChild(id core.RunID, start *core.ChildStart) error {
	child, err := p.get(id)
	switch {
	case err == nil:
		p.tellIfEnded(child)
		return nil
	case !errors.Is(err, journal.ErrNotFound):
		return err
	}
	if f := p.createChild(id, start); f != nil {
		p.send(core.Message{To: start.Parent.Run, Content: core.ChildEnded{
			Step: start.Parent.Step, Attempt: start.Parent.Attempt, Child: id, Failure: f,
		}})
	}
	return nil
}

// createChild makes a child run. It returns a failure if that is impossible. It returns nil if the child was made,
// or if the batch is dropped and everything is tried again.
func (p *Partition) createChild(id core.RunID, start *core.ChildStart) *policy.Failure {
	w, err := p.defs.stored(p.ctx, start.Definition)
	if p.noteTemporary(err) {
		return nil
	}
	if err != nil {
		return cannotUse(start.Workflow, err)
	}
	if n := p.children.families.count(start.Parent.Top); n >= p.cfg.MaxFamily {
		return permanentFailure("child", fmt.Sprintf("%d child runs of one family are open, and no more may be", n))
	}
	child := p.residents.create(id, w.kind)
	child.rests = w.def.Elsewhere || p.rests(&core.Run{ID: id, Parent: start.Parent})
	err = p.advance(child, w.def, core.Start{
		Definition: start.Definition, Workflow: start.Workflow, Input: start.Input, ExecutionAt: start.Execution,
		Parent: start.Parent, Actor: "parent", Queue: start.Queue, Within: start.Within, Headers: start.Headers,
	})
	if err != nil {
		delete(p.residents.runs, id)
		return permanentFailure("child", err.Error())
	}
	p.children.families.begins(child.state)
	return nil
}

// tellIfEnded tells a run's parent about its end, if it has ended and no run follows it in its chain.
func (p *Partition) tellIfEnded(r *run) {
	if r.state.Phase.Closed() && r.state.Next == (core.RunID{}) {
		p.tellParent(r)
	}
}

// tellParent reports the end of a child run to the step that started it.
func (p *Partition) tellParent(child *run) {
	s := child.state
	p.send(core.Message{To: s.Parent.Run, Content: core.ChildEnded{
		Step: s.Parent.Step, Attempt: s.Parent.Attempt, Child: s.ID,
		Phase: s.Phase, Output: s.Output, Failure: s.Failure,
	}})
}

// askChild makes a child run tell its parent about its end. If the child's chain has gone on, the last run of the
// chain is asked.
func (p *Partition) askChild(id core.RunID) error {
	child, err := p.current(id)
	if err == nil {
		p.tellIfEnded(child)
	}
	return err
}

// notify sends an event to the run that asked to know about the end of a chain.
func (p *Partition) notify(r *run) {
	s := r.state
	first := s.Chain.First
	if first == (core.RunID{}) {
		first = s.ID
	}
	p.send(core.Message{Name: s.Notify, Content: core.SignalReceived{
		Name: core.SignalEnded(s.WorkflowID), ID: first.String(), Payload: endOf(r),
	}})
}

// signalNamed delivers an event to the open run of a workflow id. If there is none, the event is dropped: nobody
// waits for it.
func (p *Partition) signalNamed(workflowID string, in core.SignalReceived) error {
	id, ok, err := p.openRun(workflowID)
	if err != nil {
		return err
	}
	if !ok {
		return p.asideNamed(workflowID)
	}
	to, err := p.get(id)
	if err != nil {
		return err
	}
	return p.tell(to, in)
}

// asideNamed returns why a run with that workflow id is set aside of which the view has nothing; nil: there is none.
func (p *Partition) asideNamed(workflowID string) error {
	for _, a := range p.residents.aside {
		if a.missingRow != nil && a.missingRow.WorkflowID == workflowID {
			return a
		}
	}
	return nil
}

// stopChild applies an operation to a child run, or to the last run of its chain.
func (p *Partition) stopChild(id core.RunID, op core.Op) error {
	child, err := p.current(id)
	if err != nil {
		return err
	}
	if child.state.Phase.Closed() {
		return nil // its parent was told when it ended
	}
	switch child.state.Parent.Close {
	case core.ChildTerminate:
		op = core.OpTerminate
	case core.ChildAbandon:
		// The child goes on alone. For the parent, the attempt has stopped.
		parent := child.state.Parent
		p.send(core.Message{To: parent.Run, Content: core.TaskStopped{
			Step: parent.Step, Attempt: parent.Attempt, Abandoned: true,
		}})
		return nil
	case core.ChildCancel:
	}
	return p.tell(child, core.Operation{
		Op: op, Step: core.NoStep, Actor: "parent", Reason: "the parent run stopped its step",
	})
}

// boundChild moves the deadline that a child run inherited from its parent.
func (p *Partition) boundChild(id core.RunID, bound core.ChildBound) error {
	child, err := p.current(id)
	if err != nil {
		return err
	}
	to, moves := child.state.Inherits(bound.Was, bound.Is)
	if !moves || child.state.Phase.Closed() {
		return nil
	}
	if to == 0 {
		to = policy.FarFuture
	}
	to = max(to, p.now+1) // if it passed while the message was on its way, it expires at once
	return p.tell(child, core.Operation{
		Op: core.OpExtend, Step: core.NoStep, Limit: policy.LimitExecution, To: to,
		Actor: "parent", Reason: "the parent run's deadline moved",
	})
}
