package engine

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// errand is an effect within the partition: it joins the batch of the input it follows from.
type errand struct {
	run *run
	eff core.Effect
}

// advance lets an input happen to a run and takes in what was recorded. The error is the machine's refusal.
func (p *Partition) advance(r *run, def core.Definition, in core.Input) error {
	out, err := core.Advance(r.state, def, in, p.now)
	if err != nil {
		return err
	}
	if len(out.Entry.Records) > 0 {
		p.record(r, &out.Entry)
	}
	for _, e := range out.Effects {
		p.effect(r, e)
	}
	p.residents.retime(r)
	p.pipeline.view.noteSettled(r, p.now)
	return nil
}

// record puts an entry into the open batch.
func (p *Partition) record(r *run, e *core.Entry) {
	p.pipeline.add(r, e, p.now)
	if p.audience.watched(e.Run) {
		b := p.pipeline.open
		b.watched = append(b.watched, watched{entry: *e, number: r.state.Seq})
	}
}

// effect carries out an effect, or has it wait for its turn or its batch.
func (p *Partition) effect(r *run, e core.Effect) {
	switch e := e.(type) {
	case core.Dispatch:
		p.tasks.hold(e.Task)
		p.pipeline.open.after = append(p.pipeline.open.after, effect{run: r.id(), eff: e})
	case core.Revoke:
		p.pipeline.open.after = append(p.pipeline.open.after, effect{run: r.id(), eff: e})
	case core.Consult:
		p.bodyEffect(r, e)
	default:
		p.todo.push(errand{r, e})
	}
}

// settle runs the errands of the input at hand and their errands, and matches waiting attempts with free workers, until
// nothing is left. All of it joins one batch.
func (p *Partition) settle() {
	for {
		if p.todo.len() > 0 {
			p.perform(p.todo.pop())
			continue
		}
		if p.ticking {
			break
		}
		q := p.tasks.nextMatch()
		if q == nil {
			break
		}
		p.handOut(q)
	}
	p.residents.endVisits()
}

func (p *Partition) perform(e errand) {
	switch eff := e.eff.(type) {
	case core.Offer:
		p.offer(e.run, eff)
	case core.Withdraw:
		p.tasks.withdraw(core.Token{Run: e.run.id(), Step: eff.Step, Attempt: eff.Attempt})
	case core.StartChild:
		p.startChild(e.run, eff)
	case core.StopChild:
		p.stopChild(e.run, eff)
	case core.BoundChild:
		p.boundChild(e.run, eff)
	case core.Closed:
		p.closed(e.run, eff)
	default: // the others wait for their batch
	}
}

// closed follows the end of a run: its name is free, the chain goes on or the parent is told, callers wait no longer
// than until the batch is durable.
func (p *Partition) closed(r *run, e core.Closed) {
	p.residents.unname(r, false)
	r.ended = p.pipeline.open.seq
	p.bodyEffect(r, e)
	p.pipeline.open.ended = append(p.pipeline.open.ended, ended{r.outcome(), r.state.Next})
	switch {
	case e.Next != nil:
		next := p.residents.create(r.state.Next)
		if err := p.advance(next, r.state.Attached(), *e.Next); err != nil {
			p.cfg.Log.Error("the next run of a chain cannot start", "run", r.id().String(), "error", err)
			return
		}
		p.residents.name(next)
	case r.state.Parent.Run != (core.RunID{}):
		p.tellParent(r)
	case r.state.Notify != "":
		p.notify(r)
	}
}

// failed makes a failure of something that cannot work however often it is tried.
func failed(kind, message string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindFailed, Type: kind, Message: message, NonRetryable: true}
}
