package engine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// EndOfRun is the payload of core.SignalEnded: how a run has ended that another one asked about. It is also that of
// core.SignalRefused, if the run had ended before.
type EndOfRun struct {
	Run     string `json:"run,omitempty"`
	Phase   string `json:"phase,omitempty"`   // empty: there is no such run
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
		return null // three texts can always be written
	}
	return text
}

// store stores a definition with the open batch. It is also kept in memory: a run of it may begin before that batch
// is durable. One that cannot be used refuses its runs later.
func (p *Partition) store(d *journal.Definition) {
	p.pipeline.define(d)
	if _, err := p.defs.use(p.ctx, d); err != nil {
		p.cfg.Log.Warn("a definition is stored that cannot be used here", "workflow", d.Name, "error", err)
	}
}

// beginAsked starts a run that another one asked for. If its key has started one before, it starts no other. Whoever
// asked is told why it is not started.
func (p *Partition) beginAsked(workflowID string, s *core.RunStart) error {
	if err := p.startAsked(workflowID, s); err != nil && !p.noteTemporary(err) {
		p.refuseAsked(workflowID, s, EndOfRun{Message: err.Error()})
	}
	return nil
}

// startAsked does what beginAsked says, without the answer. Its error is why the run cannot be started.
func (p *Partition) startAsked(workflowID string, s *core.RunStart) error {
	if id, found, err := p.keyRun(startKey{s.Workflow, s.Key}); err != nil || found {
		if found {
			err = p.tellAsked(workflowID, s, id)
		}
		return err
	}
	switch open, found, err := p.openRun(workflowID); {
	case err != nil:
		return err
	case found:
		return &unusable{fmt.Errorf("the open run %s has the workflow id %q", open, workflowID)}
	}
	w, err := p.defs.stored(p.ctx, s.Definition)
	if err != nil {
		return err
	}
	input, err := checkInput(w.def, s.Input)
	if err != nil {
		return &unusable{err}
	}
	id := p.newID(&StartRequest{WorkflowID: workflowID, Definition: journal.Definition{Name: s.Workflow}})
	if p.cfg.Carried.Has(s.Top) {
		p.cfg.Carried.Add(id)
	}
	r := p.residents.create(id, w.kind)
	r.rests = w.def.Elsewhere || p.rests(&core.Run{ID: id})
	start := core.Start{
		Definition: s.Definition, Workflow: s.Workflow, WorkflowID: workflowID, Key: s.Key, Input: input,
		Firing: s.Firing, Zone: s.Zone, ExecutionAt: s.Deadline, Labels: s.Labels, Headers: s.Headers, Queue: s.Queue,
		Actor: s.Actor, Reason: s.Reason, Chain: core.Chain{AfterFailure: s.AfterFailure && w.def.Recalls},
		Run: s.Limit(),
	}
	if s.Notify {
		start.Notify = s.From
	}
	if err := p.advance(r, w.def, start); err != nil {
		delete(p.residents.runs, id)
		return &unusable{err}
	}
	p.residents.addNames(r)
	return nil
}

// tellAsked answers whoever asked for a run that its key has started before: if that has ended, with its end. If it is
// open, its end is going to be told.
func (p *Partition) tellAsked(workflowID string, s *core.RunStart, id core.RunID) error {
	r, err := p.current(id)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		p.refuseAsked(workflowID, s, EndOfRun{Run: id.String(), Phase: core.RunSucceeded.String()})
		return nil
	case err != nil:
		return err
	case !r.state.Phase.Closed() && r.state.Notify == s.From:
		return nil
	}
	end := EndOfRun{Run: r.id().String(), Phase: r.state.Phase.String()}
	p.refuseAsked(workflowID, s, end)
	return nil
}

// refuseAsked tells whoever asked for a run that it was not started.
func (p *Partition) refuseAsked(workflowID string, s *core.RunStart, why EndOfRun) {
	p.send(core.Message{Name: s.From, Content: core.SignalReceived{
		Name: core.SignalRefused(workflowID), Payload: why.encode(),
	}})
}

// stopNamed cancels the open run of a workflow id.
func (p *Partition) stopNamed(workflowID string, stop core.RunStop) error {
	id, found, err := p.openRun(workflowID)
	if err != nil || !found {
		return err
	}
	r, err := p.get(id)
	if err != nil {
		return err
	}
	return p.tell(r, core.Operation{
		Op: core.OpCancel, Step: core.NoStep, Actor: stop.Actor, Reason: stop.Reason,
	})
}
