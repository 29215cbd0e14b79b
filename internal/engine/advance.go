package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// errand is an effect on other runs, or on the queues: it joins the batch of the input it follows from.
type errand struct {
	run  *run
	eff  core.Effect
	next *turn // of Closed: the start of the chain's next run; nil: there is none
}

// advance lets an input happen to a run and takes in what was recorded. The error is the machine's refusal, or that the
// run is set aside.
func (p *Partition) advance(r *run, def *core.Definition, in core.Input) error {
	if r.aside != nil {
		return r.aside
	}
	t := turn{run: r}
	next, err := p.work(&t, def, in)
	if err == nil {
		err = p.pipeline.add(&t, next, p.now)
	}
	if err != nil {
		return p.refuse(r, err)
	}
	if p.tasks.tickets > 0 {
		p.judge(&t)
	}
	p.watch(&t)
	if next != nil {
		p.residents.runs[next.run.id()] = next.run
		p.watch(next)
	}
	p.carryOn(&t, next)
	return nil
}

// refuse returns why an input did not happen. After a panic the run is set aside.
func (p *Partition) refuse(r *run, err error) error {
	if bug := (*panicked)(nil); errors.As(err, &bug) {
		return p.stop(r, err)
	}
	return err
}

// work asks the machine what an input makes of a run. Where the run ends and its chain goes on, it works out the start of
// the next run as well: both are saved together or not at all.
func (p *Partition) work(t *turn, def *core.Definition, in core.Input) (next *turn, err error) {
	defer caught("it took", in, &err)
	r := t.run
	if t.out, err = core.Advance(r.state, def, in, p.now); err != nil {
		return nil, err
	}
	for _, e := range t.out.Effects {
		closed, ok := e.(core.Closed)
		if !ok || closed.Next == nil {
			continue
		}
		next = &turn{run: &run{state: core.NewRun(r.state.Next), kind: r.kind}}
		if next.out, err = core.Advance(next.run.state, r.state.Attached(), *closed.Next, p.now); err != nil {
			p.cfg.Log.Error("the next run of a chain cannot start", "run", r.id().String(), "error", err)
			return nil, nil
		}
		break
	}
	return next, nil
}

// carryOn sees to the effects of what is in the open batch, and to when the run wants attention again.
func (p *Partition) carryOn(t, next *turn) {
	for _, e := range t.out.Effects {
		p.effect(t.run, e, next)
	}
	if t.run.aside != nil {
		return
	}
	p.residents.retime(t.run)
	p.pipeline.view.noteSettled(t.run, p.now)
}

// watch notes the entry for those who watch the run.
func (p *Partition) watch(t *turn) {
	if e := &t.out.Entry; len(e.Records) > 0 && p.audience.watched(e.Run) {
		b := p.pipeline.open
		b.watched = append(b.watched, watched{entry: *e, number: t.run.state.Seq})
	}
}

// effect carries out an effect, or has it wait for its turn or its batch.
func (p *Partition) effect(r *run, e core.Effect, next *turn) {
	switch e := e.(type) {
	case core.Dispatch:
		p.tasks.hold(e.Task.Token)
		p.pipeline.open.after = append(p.pipeline.open.after, effect{run: r.id(), kind: r.kind, eff: e})
	case core.Revoke:
		p.pipeline.open.after = append(p.pipeline.open.after, effect{run: r.id(), kind: r.kind, eff: e})
	case core.Consult:
		p.bodyEffect(r, e)
	default:
		p.todo.push(errand{r, e, next})
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
		if p.tasks.client.called.Load() {
			p.takeTurns()
		}
		q := p.tasks.nextToMatch()
		if q == nil {
			break
		}
		p.startNext(q)
	}
	p.residents.endVisits()
}

func (p *Partition) perform(e errand) {
	switch eff := e.eff.(type) {
	case core.Offer:
		if e.run.aside == nil {
			p.offer(e.run, eff)
		}
	case core.Withdraw:
		p.tasks.withdraw(core.Token{Run: e.run.id(), Step: eff.Step, Attempt: eff.Attempt})
	case core.StartChild:
		p.startChild(e.run, eff)
	case core.StopChild:
		p.send(core.Message{To: eff.Child, Content: core.ChildStop{Op: eff.Op}})
	case core.BoundChild:
		p.send(core.Message{To: eff.Child, Content: core.ChildBound{Was: eff.Was, Is: eff.Is}})
	case core.Closed:
		p.closed(e.run, eff, e.next)
	default: // the others wait for their batch
	}
}

// closed follows the end of a run: its name is free, the chain goes on or the parent is told, callers wait no longer
// than until the batch is durable.
func (p *Partition) closed(r *run, e core.Closed, next *turn) {
	p.residents.unname(r, false)
	r.ended = p.pipeline.open.seq
	p.bodyEffect(r, e)
	p.pipeline.open.ended = append(p.pipeline.open.ended, ended{r.outcome(), r.state.Next})
	switch {
	case next != nil:
		p.carryOn(next, nil)
		p.residents.name(next.run)
	case e.Next != nil: // it cannot start; the log has said so
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
