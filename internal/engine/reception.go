package engine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// EndOfRun is the payload of core.SignalEnded: how a run has ended that another one asked about. It is also that of
// core.SignalRefused, if the run had ended before.
type EndOfRun struct {
	Run     string `json:"run,omitempty"`
	Phase   string `json:"phase,omitempty"`   // empty if there is no such run
	Message string `json:"message,omitempty"` // why it failed, or why it was not started
}

// endOf returns how a run has ended.
func endOf(r *run) []byte {
	end := EndOfRun{Run: r.id().String(), Phase: r.state.Phase.String()}
	if f := r.state.Failure; f != nil {
		end.Message = f.Message
	}
	return end.encode()
}

func (e EndOfRun) encode() []byte {
	text, err := json.Marshal(e)
	if err != nil {
		return []byte("null") // three texts can always be written
	}
	return text
}

// reception takes the messages to runs of this partition, which other runs, here or in another partition, have sent.
type reception struct {
	*base
	heart
	residents *residents
	children  *children
	starts    *starts
	keep      func(m *core.Message, why error) // keeps a message to a run that is set aside
}

// receive gives a message to the run it is for. That run lives in this partition. If the run is set aside, the message
// is kept for it.
func (r *reception) receive(m *core.Message) {
	if start, ok := r.children.unborn.take(m.To); ok {
		r.children.beginUnborn(m.To, start)
	}
	var err error
	switch c := m.Content.(type) {
	case core.ChildStart:
		err = r.children.begin(m.To, &c)
	case core.ChildStop:
		err = r.stopChild(m.To, c.Op)
	case core.ChildBound:
		err = r.boundChild(m.To, c)
	case core.ChildAsk:
		err = r.askChild(m.To)
	case core.SignalReceived:
		err = r.signalNamed(m.Name, c)
	case core.ChildEnded:
		err = r.tellRun(m.To, c)
	case core.ChildBegan:
		err = r.tellRun(m.To, c)
	case core.TaskStopped:
		err = r.tellRun(m.To, c)
	case core.Sent:
		err = r.take(&c)
	case core.SendEnded:
		err = r.tellRun(m.To, c)
	case core.RunStart:
		err = r.beginAsked(m.Name, &c)
	case core.RunStop:
		err = r.stopNamed(m.Name, c)
	case core.KeyedStart:
		r.starts.beginKeyed(m.To, &c)
	case core.KeyedStarted:
		err = r.starts.endClaim(&c)
	}
	if permanent(err) {
		r.keep(m, err)
		return
	}
	r.unreadable(err, "the run that a message is for cannot be read", "run", m.To.String(), "workflow id", m.Name)
}

// tell gives an input to a run that a message is for. The run refuses an input that is out of date. An error means that
// the run is set aside.
func (r *reception) tell(to *run, in core.Input) error {
	if err := r.advance(to, nil, in); permanent(err) {
		return err
	}
	return nil
}

// tellRun gives an input to a parent run, or to the one that goes on in its place.
func (r *reception) tellRun(parent core.RunID, in core.Input) error {
	to, err := r.get(parent)
	if err == nil {
		to, err = r.heir(to, in)
	}
	if err != nil {
		return err
	}
	return r.tell(to, in)
}

// heir returns the run that gets the news of a step: the run itself, or the one that goes on in its place. An error
// means that this one is set aside, or cannot be read now: the run itself has ended, and the news would be lost in it.
func (r *reception) heir(to *run, in core.Input) (*run, error) {
	step, ok := stepOf(in)
	for ok && core.Heir(to.state) != (core.RunID{}) {
		next, err := r.get(core.Heir(to.state))
		if err != nil {
			return nil, err
		}
		if !core.SameStep(to.state, next.state, step) {
			break
		}
		to = next
	}
	return to, nil
}

// stepOf returns the step that the end or the begin of something is about that a run has begun.
func stepOf(in core.Input) (core.StepID, bool) {
	switch in := in.(type) {
	case core.ChildEnded:
		return in.Step, true
	case core.ChildBegan:
		return in.Step, true
	case core.SendEnded:
		return in.Step, true
	default:
		return core.NoStep, false
	}
}

// signalNamed delivers an event to the open run of a workflow id. If there is none, the event is dropped, since nothing
// waits for it.
func (r *reception) signalNamed(workflowID string, in core.SignalReceived) error {
	id, ok, err := r.residents.openRun(workflowID)
	if err != nil {
		return err
	}
	if !ok {
		return r.residents.asideNamed(workflowID)
	}
	to, err := r.get(id)
	if err != nil {
		return err
	}
	return r.tell(to, in)
}

// stopChild applies an operation to a child run, or to the last run of its chain.
func (r *reception) stopChild(id core.RunID, op core.Op) error {
	child, err := r.current(id)
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
		r.send(core.Message{To: parent.Run, Content: core.TaskStopped{
			Step: parent.Step, Attempt: parent.Attempt, Abandoned: true,
		}})
		return nil
	case core.ChildCancel:
	}
	return r.tell(child, core.Operation{
		Op: op, Step: core.NoStep, Actor: "parent", Reason: "the parent run stopped its step",
	})
}

// boundChild moves the deadline that a child run inherited from its parent.
func (r *reception) boundChild(id core.RunID, bound core.ChildBound) error {
	child, err := r.current(id)
	if err != nil {
		return err
	}
	to, moves := child.state.Inherits(bound.Was, bound.Is, r.now)
	if !moves || child.state.Phase.Closed() {
		return nil
	}
	return r.tell(child, core.Operation{
		Op: core.OpExtend, Step: core.NoStep, Limit: policy.LimitExecution, To: to,
		Actor: "parent", Reason: "the parent run's deadline moved",
	})
}

// askChild makes a child run tell its parent about its end. If the child's chain has gone on, the last run of the chain
// is asked.
func (r *reception) askChild(id core.RunID) error {
	child, err := r.current(id)
	if err == nil {
		r.children.tellIfEnded(child)
	}
	return err
}

// beginAsked starts a run that another one asked for. If its key has started one before, it starts no other. The run
// that asked for it learns why it is not started.
func (r *reception) beginAsked(workflowID string, s *core.RunStart) error {
	if err := r.startAsked(workflowID, s); err != nil && !r.noteTemporary(err) {
		r.refuseAsked(workflowID, s, EndOfRun{Message: err.Error()})
	}
	return nil
}

// startAsked does what beginAsked does, without the answer. Its error is why the run cannot be started.
func (r *reception) startAsked(workflowID string, s *core.RunStart) error {
	if id, found, err := r.residents.keyRun(startKey{s.Workflow, s.Key}); err != nil || found {
		if found {
			err = r.tellAsked(workflowID, s, id)
		}
		return err
	}
	switch open, found, err := r.residents.openRun(workflowID); {
	case err != nil:
		return err
	case found:
		return &unusable{fmt.Errorf("the open run %s has the workflow id %q", open, workflowID)}
	}
	w, err := r.defs.stored(r.ctx, s.Definition)
	if err != nil {
		return err
	}
	input, err := checkInput(w.def, s.Input)
	if err != nil {
		return &unusable{err}
	}
	id := r.residents.newID(s.Workflow, workflowID, "")
	if r.cfg.Carried.Has(s.Top) {
		r.cfg.Carried.AddFor(id, r.cfg.Carried.For(s.Top))
	}
	created := r.residents.create(id, w.kind)
	created.rests = w.def.Elsewhere || r.residents.rests(&core.Run{ID: id})
	start := core.Start{
		Definition: s.Definition, Workflow: s.Workflow, WorkflowID: workflowID, Key: s.Key, Input: input,
		Firing: s.Firing, Zone: s.Zone, ExecutionAt: s.Deadline, Labels: s.Labels, Headers: s.Headers, Queue: s.Queue,
		Actor: s.Actor, Reason: s.Reason, Chain: core.Chain{AfterFailure: s.AfterFailure && w.def.Recalls},
		Run: s.Limit(),
	}
	if s.Notify {
		start.Notify = s.From
	}
	if err := r.advance(created, w.def, start); err != nil {
		delete(r.residents.runs, id)
		return &unusable{err}
	}
	r.residents.addNames(created)
	return nil
}

// tellAsked answers the run that asked for a run which was already started with its key: if that has ended, with its
// end. If it is open, its end will be reported later.
func (r *reception) tellAsked(workflowID string, s *core.RunStart, id core.RunID) error {
	of, err := r.current(id)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		r.refuseAsked(workflowID, s, EndOfRun{Run: id.String(), Phase: core.RunSucceeded.String()})
		return nil
	case err != nil:
		return err
	case !of.state.Phase.Closed() && of.state.Notify == s.From:
		return nil
	}
	end := EndOfRun{Run: of.id().String(), Phase: of.state.Phase.String()}
	r.refuseAsked(workflowID, s, end)
	return nil
}

// refuseAsked tells the run that asked for a run that it was not started.
func (r *reception) refuseAsked(workflowID string, s *core.RunStart, why EndOfRun) {
	r.send(core.Message{Name: s.From, Content: core.SignalReceived{
		Name: core.SignalRefused(workflowID), Payload: why.encode(),
	}})
}

// stopNamed cancels the open run of a workflow id.
func (r *reception) stopNamed(workflowID string, stop core.RunStop) error {
	id, found, err := r.residents.openRun(workflowID)
	if err != nil || !found {
		return err
	}
	open, err := r.get(id)
	if err != nil {
		return err
	}
	return r.tell(open, core.Operation{
		Op: core.OpCancel, Step: core.NoStep, Actor: stop.Actor, Reason: stop.Reason,
	})
}

// take gives a run what another one has sent, and reports the result to that one. An error means that the run is set
// aside, or cannot be read now.
func (r *reception) take(s *core.Sent) error {
	to, err := r.receiver(s)
	if err != nil && !errors.Is(err, journal.ErrNotFound) && !errors.Is(err, journal.ErrCorrupt) {
		return err
	}
	end := core.SendEnded{Step: s.Step}
	if to == nil {
		end.Failure = permanentFailure(core.TypeNotDelivered, "there is no such run that is open")
	} else if err := r.advance(to, nil, inputOf(s)); permanent(err) {
		return err
	} else if err != nil {
		end.Failure = permanentFailure(typeOfRefusal(err), err.Error())
	}
	r.send(core.Message{To: s.From, Content: end})
	return nil
}

// receiver returns the open run that something was sent to; nil: there is none.
func (r *reception) receiver(s *core.Sent) (*run, error) {
	to, err := r.named(s)
	if to == nil || err != nil {
		return nil, err
	}
	st := to.state
	if st.Phase.Closed() || !st.Answers() || st.WorkflowID != s.WorkflowID {
		return nil, nil
	}
	if s.OfChild && s.Run == (core.RunID{}) && st.Parent.Run != s.From {
		return nil, nil // it is somebody else's
	}
	return to, nil
}

// named returns the run that something was sent to by its name; nil: there is none.
func (r *reception) named(s *core.Sent) (*run, error) {
	switch {
	case s.Run != (core.RunID{}) && s.OfChild:
		return r.current(s.Run)
	case s.Run != (core.RunID{}):
		return r.get(s.Run)
	}
	id, found, err := r.residents.openRun(s.WorkflowID)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, r.residents.asideNamed(s.WorkflowID)
	}
	return r.get(id)
}

// inputOf returns what a run is given of something that was sent to it.
func inputOf(s *core.Sent) core.Input {
	if s.Cancel {
		return core.Operation{Op: core.OpCancel, Step: core.NoStep, Actor: s.Actor, Reason: s.Reason}
	}
	return core.SignalReceived{Name: s.Name, ID: s.ID, Payload: s.Payload, Actor: s.Actor, Reason: s.Reason}
}

// typeOfRefusal returns the type of the failure of a send that its receiver has refused.
func typeOfRefusal(err error) string {
	var why *core.Error
	if errors.As(err, &why) && why.Code == core.CodeFull {
		return core.TypeFull
	}
	return core.TypeNotDelivered
}
