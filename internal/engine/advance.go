package engine

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// localEffect is an effect inside the partition: on other runs or on the task queues. It happens in the same batch
// as the input that caused it.
type localEffect struct {
	run  *run
	eff  core.Effect
	next *transition     // the start of the chain's next run, for Closed; nil if there is none
	done *core.TaskEnded // the end of an attempt that took no time, for Dispatch
}

// mostInstants is how many attempts that take no time one input starts and ends at most. Those that follow them wait
// until their start is durable, so that a flow that never ends leaves time for others. None does once the open batch is
// full: a tick, or the start of many child runs, is many inputs.
const mostInstants = 64

// advance gives an input to a run and keeps what was recorded. It returns an error if the machine refuses the input,
// or if the run is set aside.
func (p *Partition) advance(r *run, def *core.Definition, in core.Input) error {
	if r.aside != nil {
		return r.aside
	}
	var rows []journal.StepRow
	if r.state.Phase.Closed() { // if this input panics, the state can no longer make them
		rows = r.rows.makeSteps(r.state)
	}
	t := transition{run: r}
	next, err := p.compute(&t, def, in)
	if err == nil {
		err = p.pipeline.add(&t, next, p.now)
	}
	if isPanic(err) {
		r.rows.made = rows
		return p.setAsideAfterPanic(r, err)
	}
	if err != nil {
		return err
	}
	if p.tasks.tickets > 0 {
		p.tasks.judge(&t)
	}
	p.audience.note(p.pipeline.open, &t)
	if next != nil {
		p.residents.runs[next.run.id()] = next.run
		p.audience.note(p.pipeline.open, next)
	}
	p.handleEffects(&t, next)
	return nil
}

// compute asks the machine what an input changes in a run. If the run ends and its chain goes on, it also computes
// the start of the next run: both are saved together, or neither is.
func (p *Partition) compute(t *transition, def *core.Definition, in core.Input) (next *transition, err error) {
	defer catchPanic("it took", in, &err) // a log line reads: its code panicked while it took core.Tick
	r := t.run
	if t.out, err = core.Advance(r.state, def, p.cfg.bounded(in), p.now); err != nil {
		return nil, err
	}
	for _, e := range t.out.Effects {
		closed, ok := e.(core.Closed)
		if !ok || closed.Next == nil {
			continue
		}
		next = &transition{run: &run{state: core.NewRun(r.state.Next), kind: r.kind, rests: r.rests}}
		if next.out, err = core.Advance(next.run.state, r.state.Attached(), *closed.Next, p.now); err != nil {
			p.cfg.Log.Error("the next run of a chain cannot start",
				"id", "chain-stuck", "run", r.id().String(), "error", err)
			return nil, nil
		}
		break
	}
	return next, nil
}

// handleEffects handles the effects of a transition that is in the open batch, and stores when the run must wake next.
func (p *Partition) handleEffects(t, next *transition) {
	for _, e := range t.out.Effects {
		p.handleEffect(t.run, e, next)
	}
	if t.run.aside != nil {
		return
	}
	p.residents.retime(t.run)
	p.admissions.followQueue(t.run)
	p.pipeline.view.noteSettled(t.run, p.now)
}

// handleEffect sorts an effect: one on the outside world waits until the batch is durable, one inside the partition
// waits until the current input is done.
func (p *Partition) handleEffect(r *run, e core.Effect, next *transition) {
	switch eff := e.(type) {
	case core.Dispatch:
		p.tasks.hold(eff.Task.Token)
		if p.handling.instants < mostInstants && p.pipeline.hasRoom(p.cfg.Inflight) {
			if done, ok := p.tasks.do(&eff.Task); ok {
				p.handling.instants++
				p.handling.todo.push(localEffect{run: r, eff: eff, done: &done})
				return
			}
		}
		p.pipeline.open.after = append(p.pipeline.open.after, effect{run: r.id(), kind: r.kind, eff: e})
	case core.Revoke:
		p.pipeline.open.after = append(p.pipeline.open.after, effect{run: r.id(), kind: r.kind, eff: e})
	case core.Consult:
		if !r.rests {
			p.bodyEffect(r, e)
		}
	default:
		p.handling.todo.push(localEffect{run: r, eff: e, next: next})
	}
}

// settle carries out the local effects of the current input, and the effects that these have in turn. Then it hands
// waiting attempts to free workers, but not during a Tick: due work comes first. It returns when nothing is left. All
// of it joins one batch.
func (p *Partition) settle() {
	for {
		if p.handling.todo.len() > 0 {
			p.performLocal(p.handling.todo.pop())
			continue
		}
		if p.handling.ticking {
			break
		}
		if len(p.admissions.asking) > 0 { // first the queues, then the turns: a new arrival may go first
			p.admissions.askQueues()
			continue
		}
		if p.tasks.client.Called() {
			p.takeTurns()
			continue
		}
		q := p.tasks.nextToMatch()
		if q == nil {
			break
		}
		p.tasks.startNext(q)
	}
	p.residents.evictUnneeded()
	p.handling.instants = 0
}

func (p *Partition) performLocal(e localEffect) {
	switch eff := e.eff.(type) {
	case core.Dispatch:
		_ = p.advance(e.run, nil, *e.done)
		p.tasks.release(eff.Task.Token)
	case core.Offer:
		if e.run.aside == nil && !e.run.rests {
			p.tasks.offer(e.run, eff, e.run == p.handling.decided)
		}
	case core.Withdraw:
		p.tasks.withdraw(core.Token{Run: e.run.id(), Step: eff.Step, Attempt: eff.Attempt})
	case core.StartChild:
		p.children.start(e.run, eff)
	case core.StopChild:
		p.send(core.Message{To: eff.Child, Content: core.ChildStop{Op: eff.Op}})
	case core.BoundChild:
		p.send(core.Message{To: eff.Child, Content: core.ChildBound{Was: eff.Was, Is: eff.Is}})
	case core.Store:
		p.store(&journal.Definition{ID: eff.ID, Kind: eff.Kind, Name: eff.Name, Source: eff.Source})
	case core.StartRun:
		p.send(core.Message{Name: eff.WorkflowID, Content: eff.Start})
	case core.StopRun:
		p.send(core.Message{Name: eff.WorkflowID, Content: core.RunStop{
			Actor: e.run.state.WorkflowID, Reason: eff.Reason,
		}})
	case core.Send:
		p.send(eff.Message)
	case core.Closed:
		p.closed(e.run, eff, e.next)
	default: // other effects wait for their batch
	}
}

// closed handles the end of a run: its workflow id is free for others, the next run of the chain starts or the
// parent is told, and those who wait for the result get it once the batch is durable.
func (p *Partition) closed(r *run, e core.Closed, next *transition) {
	p.residents.removeNames(r, false)
	r.endBatch = p.pipeline.open.seq
	p.admissions.freePlace(r)
	p.children.families.ends(r.state)
	p.bodyEffect(r, e)
	p.pipeline.open.ended = append(p.pipeline.open.ended, ended{r.outcome(), r.state.Next})
	switch {
	case next != nil:
		p.handleEffects(next, nil)
		p.residents.addNames(next.run)
		p.children.families.begins(next.run.state)
	case e.Next != nil: // the next run cannot start; compute has logged why
	case r.state.Next != (core.RunID{}): // a run that begins with its entries goes on in its place
	case r.state.Parent.Run != (core.RunID{}):
		p.children.tellParent(r)
	case r.state.Notify != "":
		p.notify(r)
	}
}

// store keeps a definition with the open batch. It is also kept in memory: a run of it may begin before that batch
// is durable. One that cannot be used refuses its runs later.
func (p *Partition) store(d *journal.Definition) {
	p.pipeline.define(d)
	if _, err := p.defs.use(p.ctx, d); err != nil {
		p.cfg.Log.Warn("a definition is stored that cannot be used here", "workflow", d.Name, "error", err)
	}
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
