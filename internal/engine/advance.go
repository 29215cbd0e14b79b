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
func (p *Partition) advance(r *run, def *core.Definition, in core.Input) error {
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
	p.retime(r)
	p.ripen(r)
	return nil
}

// record puts an entry into the open batch. It is encoded once: the same bytes become the run's history.
func (p *Partition) record(r *run, e *core.Entry) {
	b := p.open
	start := len(b.blob)
	b.blob = core.AppendEntry(b.blob, e)
	b.entries++
	p.lastEntry = p.now
	if r.first == 0 {
		r.first, r.since, r.offset = b.seq, p.now, p.total
		p.behind.push(r)
	}
	encoded := b.blob[start:]
	p.total += int64(len(encoded))
	r.keep(b.seq, encoded)
	r.rows.note(r.state, e)
	if len(p.watchers) > 0 && p.watchers[e.Run] != nil {
		b.watched = append(b.watched, watched{entry: *e, number: r.state.Seq})
	}
}

// retime puts the run where its wake time belongs.
func (p *Partition) retime(r *run) {
	if r.state.Phase.Closed() {
		p.wakes.set(r, 0)
		return
	}
	p.wakes.set(r, r.state.Wake())
}

// effect carries out an effect, or has it wait for its turn or its batch.
func (p *Partition) effect(r *run, e core.Effect) {
	switch e := e.(type) {
	case core.Dispatch:
		q := p.queue(queueKey{e.Task.Queue, e.Task.Type})
		q.busy++
		p.held[e.Task.Token] = hold{queue: q}
		p.open.after = append(p.open.after, effect{run: r.id(), kind: r.kind, eff: e})
	case core.Revoke:
		p.open.after = append(p.open.after, effect{run: r.id(), kind: r.kind, eff: e})
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
		if n := len(p.matches); n > 0 && !p.ticking {
			q := p.matches[0]
			copy(p.matches, p.matches[1:])
			p.matches = p.matches[:n-1]
			p.matchOne(q)
			continue
		}
		break
	}
	for i, r := range p.visited {
		p.evict(r)
		p.visited[i] = nil
	}
	p.visited = p.visited[:0]
}

func (p *Partition) perform(e errand) {
	switch eff := e.eff.(type) {
	case core.Offer:
		p.offer(e.run, eff)
	case core.Withdraw:
		p.withdraw(core.Token{Run: e.run.id(), Step: eff.Step, Attempt: eff.Attempt})
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
	p.unname(r, false)
	r.ended = p.open.seq
	p.bodyEffect(r, e)
	p.open.ended = append(p.open.ended, ended{r.outcome(), r.state.Next})
	switch {
	case e.Next != nil:
		next := p.create(r.state.Next, r.kind)
		if err := p.advance(next, r.state.Attached(), *e.Next); err != nil {
			p.cfg.Log.Error("the next run of a chain cannot start", "run", r.id().String(), "error", err)
			return
		}
		p.name(next)
	case r.state.Parent.Run != (core.RunID{}):
		p.tellParent(r)
	case r.state.Notify != "":
		p.notify(r)
	}
}

// create puts a new run into memory.
func (p *Partition) create(id core.RunID, kind *Kind) *run {
	r := &run{state: core.NewRun(id), kind: kind}
	p.runs[id] = r
	return r
}

// name makes an open run findable by the names its caller chose.
func (p *Partition) name(r *run) {
	s := r.state
	if s.WorkflowID != "" && !s.Phase.Closed() {
		p.byName[s.WorkflowID] = s.ID
	}
	if s.Key != "" && s.Next == (core.RunID{}) { // the key goes with the chain
		p.byKey[startKey{s.Workflow, s.Key}] = s.ID
	}
}

// unname forgets a run's names: the workflow id when it ends, both when it leaves memory.
func (p *Partition) unname(r *run, leaves bool) {
	s := r.state
	if s.WorkflowID != "" && p.byName[s.WorkflowID] == s.ID {
		delete(p.byName, s.WorkflowID)
	}
	if key := (startKey{s.Workflow, s.Key}); leaves && s.Key != "" && p.byKey[key] == s.ID {
		delete(p.byKey, key)
	}
}

// failed makes a failure of something that cannot work however often it is tried.
func failed(kind, message string) *policy.Failure {
	return &policy.Failure{Kind: policy.KindFailed, Type: kind, Message: message, NonRetryable: true}
}
