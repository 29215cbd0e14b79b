package engine

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// children are the child runs of this partition that begin soon, and how many are open.
type children struct {
	*base
	heart
	residents *residents
	pipeline  *pipeline

	unborn   unborn
	families partitionFamilies
}

func (c *children) forget(all *families) {
	c.unborn = unborn{}
	c.families.forget(all)
}

// unborn are child runs of this partition that their parents have started in a batch that may still be open. They begin
// in the next batch, so that runs which start one another without end leave turns to timers, events and everyone else.
//
// The batch after the one with the start always begins them (see Partition.Cut). So if the process dies between the
// two, the start is in the last batch of the journal, and the next owner finds it there. If that one cannot read the
// parent, it keeps the tail, and a later owner finds the start further up in it.
type unborn struct {
	starts map[core.RunID]*unbornChild
	order  ring[core.RunID]
	lost   []lostChild // starts in the journal's tail, while it is replayed
}

type unbornChild struct {
	start core.ChildStart
	batch uint64 // the batch with the start
}

// lostChild is a start whose child may not have begun.
type lostChild struct {
	parent, child core.RunID
	step          core.StepID
}

func (u *unborn) add(id core.RunID, start core.ChildStart, batch uint64) {
	if u.starts == nil {
		u.starts = make(map[core.RunID]*unbornChild)
	}
	u.starts[id] = &unbornChild{start, batch}
	u.order.push(id)
}

// take returns a child that is about to begin, once.
func (u *unborn) take(id core.RunID) (*core.ChildStart, bool) {
	c := u.starts[id]
	if c == nil {
		return nil, false
	}
	delete(u.starts, id)
	return &c.start, true
}

// next takes the first child whose start is in an earlier batch than the open one.
func (u *unborn) next(open uint64) (core.RunID, *core.ChildStart, bool) {
	for u.order.len() > 0 {
		id := u.order.first()
		c := u.starts[id]
		if c != nil && c.batch >= open {
			break
		}
		u.order.pop()
		if c != nil {
			delete(u.starts, id)
			return id, &c.start, true
		}
	}
	return core.RunID{}, nil, false
}

// due reports whether children can begin in the open batch.
func (u *unborn) due(open *batch) bool {
	if u.order.len() == 0 || open == nil {
		return false
	}
	c := u.starts[u.order.first()]
	return c == nil || c.batch < open.seq
}

// beginDue begins the child runs that were started before the open batch.
func (c *children) beginDue() {
	if c.pipeline.open == nil {
		return
	}
	for c.readErr == nil {
		id, start, ok := c.unborn.next(c.pipeline.open.seq)
		if !ok {
			return
		}
		c.beginUnborn(id, start)
		c.settle()
	}
}

func (c *children) beginUnborn(id core.RunID, start *core.ChildStart) {
	c.unreadable(c.begin(id, start), "a child run cannot begin", "run", id.String())
}

// expect notes the starts of an entry in the journal's tail.
func (u *unborn) expect(e *core.Entry) {
	for _, rec := range e.Records {
		if began, ok := rec.(core.AttemptStarted); ok && began.Child != (core.RunID{}) {
			u.lost = append(u.lost, lostChild{e.Run, began.Child, began.Step})
		}
	}
}

// loseNotBegun ends the attempts whose child runs have not begun because a process died before. They are lost, and
// others begin in their place. A parent that is set aside is read later: by the next owner from the tail, or by
// resumeSetAside.
func (c *children) loseNotBegun() {
	lost := c.unborn.lost
	c.unborn.lost = nil
	for _, l := range lost {
		parent := c.residents.runs[l.parent]
		if parent == nil || parent.state.Steps[l.step].Child != l.child || !c.neverBegan(l.child) {
			continue
		}
		c.loseChild(parent, l.step, l.child)
		c.settle()
	}
}

// neverBegan reports whether a child run of this partition is not there, and is not about to begin either.
func (c *children) neverBegan(child core.RunID) bool {
	if !c.owns(child) || c.residents.runs[child] != nil || c.residents.aside[child] != nil ||
		c.unborn.starts[child] != nil {
		return false
	}
	_, err := c.history(child)
	return !c.noteTemporary(err) && errors.Is(err, journal.ErrNotFound)
}

// loseChild ends the attempt of a step whose child run has never begun.
func (c *children) loseChild(parent *run, step core.StepID, child core.RunID) {
	c.send(core.Message{To: parent.id(), Content: core.ChildEnded{
		Step: step, Attempt: parent.state.Steps[step].Attempt, Child: child, Failure: &policy.Failure{
			Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the engine was gone before it began",
		},
	}})
}

// start starts the run of a child step. It first checks what can be checked here. If something is wrong, no
// child is made, and the attempt ends in the batch in which it began.
func (c *children) start(parent *run, e core.StartChild) {
	start, f := c.prepare(parent, e)
	switch {
	case c.readErr != nil:
	case f != nil:
		c.send(core.Message{To: parent.id(), Content: core.ChildEnded{
			Step: e.Step, Attempt: e.Attempt, Child: e.Child, Failure: f,
		}})
	case c.owns(e.Child):
		parent.startsChildIn = c.pipeline.open.seq
		c.unborn.add(e.Child, start, c.pipeline.open.seq)
	default:
		c.send(core.Message{To: e.Child, Content: start})
	}
}

// prepare makes the message that starts a child run. The open batch stores the child's definition.
func (c *children) prepare(parent *run, e core.StartChild) (core.ChildStart, *policy.Failure) {
	if parent.kind.Child == nil {
		return core.ChildStart{}, permanentFailure("child", "this kind of workflow has no child runs")
	}
	child, err := parent.kind.Child(parent.state.Definition, e.Payload)
	if err != nil {
		return core.ChildStart{}, permanentFailure("child", err.Error())
	}
	src := child.Definition
	depth := parent.state.Parent.Depth + 1
	if depth > c.cfg.MaxDepth {
		return core.ChildStart{}, permanentFailure("child", fmt.Sprintf(
			"a run may have at most %d runs above it, which start one another; does workflow %q start itself?",
			c.cfg.MaxDepth, src.Name))
	}
	w, err := c.defs.use(c.ctx, &src)
	if c.noteTemporary(err) {
		return core.ChildStart{}, nil
	}
	if err != nil {
		return core.ChildStart{}, cannotUse(src.Name, err)
	}
	input, err := checkInput(w.def, child.Input)
	if isPanic(err) {
		c.residents.logAside("a child run cannot begin", e.Child, err)
	}
	if err != nil {
		return core.ChildStart{}, permanentFailure("input", err.Error())
	}
	c.pipeline.define(&src)
	return core.ChildStart{
		Definition: src.ID, Workflow: src.Name, Input: input, Execution: e.Execution,
		Parent: core.Parent{
			Run: parent.id(), Step: e.Step, Attempt: e.Attempt, Close: child.Close,
			Top: parent.state.Top(), Depth: depth,
		},
		Queue: queueOfChild(&parent.state.Steps[e.Step]), Within: parent.state.TakenQueues(),
		Headers: parent.state.Headers, WorkflowID: child.WorkflowID, Reuse: child.Reuse,
		Tells: parent.state.Answers(),
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

// begin starts a child run in this partition. If the child exists already, it is not started again.
func (c *children) begin(id core.RunID, start *core.ChildStart) error {
	child, err := c.get(id)
	switch {
	case err == nil:
		c.tellIfEnded(child)
		return nil
	case !errors.Is(err, journal.ErrNotFound):
		return err
	}
	if f := c.create(id, start); f != nil {
		c.send(core.Message{To: start.Parent.Run, Content: core.ChildEnded{
			Step: start.Parent.Step, Attempt: start.Parent.Attempt, Child: id, Failure: f,
		}})
	}
	return nil
}

// create makes a child run. It returns a failure if that is impossible. It returns nil if the child was made,
// or if the batch is dropped and everything is tried again.
func (c *children) create(id core.RunID, start *core.ChildStart) *policy.Failure {
	w, err := c.defs.stored(c.ctx, start.Definition)
	if c.noteTemporary(err) {
		return nil
	}
	if err != nil {
		return cannotUse(start.Workflow, err)
	}
	if n := c.families.count(start.Parent.Top); n >= c.cfg.MaxFamily {
		return permanentFailure("child", fmt.Sprintf("%d child runs of one family are open, and no more may be", n))
	}
	if f, err := c.nameInUse(start); f != nil || c.noteTemporary(err) {
		return f
	}
	child := c.residents.create(id, w.kind)
	child.rests = w.def.Elsewhere || c.residents.rests(&core.Run{ID: id, Parent: start.Parent})
	err = c.advance(child, w.def, core.Start{
		Definition: start.Definition, Workflow: start.Workflow, Input: start.Input, ExecutionAt: start.Execution,
		Parent: start.Parent, Actor: "parent", Queue: start.Queue, Within: start.Within, Headers: start.Headers,
		WorkflowID: start.WorkflowID,
	})
	if err != nil {
		delete(c.residents.runs, id)
		return permanentFailure("child", err.Error())
	}
	c.families.begins(child.state)
	c.residents.addNames(child)
	if start.Tells {
		c.send(core.Message{To: start.Parent.Run, Content: core.ChildBegan{
			Step: start.Parent.Step, Attempt: start.Parent.Attempt,
		}})
	}
	return nil
}

// nameInUse returns why a child run cannot have its workflow id; nil: it can. An open run makes way if the start says
// so.
func (c *children) nameInUse(start *core.ChildStart) (*policy.Failure, error) {
	if start.WorkflowID == "" {
		return nil, nil
	}
	id, found, err := c.residents.openRun(start.WorkflowID)
	switch {
	case err != nil:
		return nil, err
	case found && start.Reuse == core.ReuseTerminate:
		open, err := c.get(id)
		if err != nil {
			return permanentFailure(core.TypeIDInUse, err.Error()), err
		}
		if err := c.advance(open, nil, replaced("parent")); err != nil {
			return permanentFailure(core.TypeIDInUse, err.Error()), nil
		}
		return nil, nil
	case found:
		return inUse(start.WorkflowID, "has the open run", id), nil
	case start.Reuse == core.ReuseFailed, start.Reuse == core.ReuseNever:
		id, phase, err := c.pipeline.newest(c.base, start.WorkflowID)
		if err == nil && id != (core.RunID{}) && (start.Reuse == core.ReuseNever || phase == core.RunSucceeded) {
			return inUse(start.WorkflowID, "was that of run", id), nil
		}
		return nil, err
	default:
		return nil, nil
	}
}

func inUse(workflowID, how string, run core.RunID) *policy.Failure {
	return permanentFailure(core.TypeIDInUse, fmt.Sprintf("the workflow id %q %s %s", workflowID, how, run))
}

// tellIfEnded tells a run's parent about its end, if it has ended and no run follows it in its chain.
func (c *children) tellIfEnded(r *run) {
	if r.state.Phase.Closed() && r.state.Next == (core.RunID{}) {
		c.tellParent(r)
	}
}

// tellParent reports the end of a child run to the step that started it.
func (c *children) tellParent(child *run) {
	s := child.state
	c.send(core.Message{To: s.Parent.Run, Content: core.ChildEnded{
		Step: s.Parent.Step, Attempt: s.Parent.Attempt, Child: s.ID,
		Phase: s.Phase, Output: s.Output, Failure: s.Failure,
	}})
}
