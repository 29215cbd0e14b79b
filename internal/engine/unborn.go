package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/policy"
)

// children are the child runs of this partition that begin soon, and how many are open.
type children struct {
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

// beginChildren begins the child runs that were started before the open batch.
func (p *Partition) beginChildren() {
	if p.pipeline.open == nil {
		return
	}
	for p.handling.readErr == nil {
		id, start, ok := p.children.unborn.next(p.pipeline.open.seq)
		if !ok {
			return
		}
		p.beginUnborn(id, start)
		p.settle()
	}
}

func (p *Partition) beginUnborn(id core.RunID, start *core.ChildStart) {
	p.unreadable(p.beginChild(id, start), "a child run cannot begin", "run", id.String())
}

// expect notes the starts of an entry in the journal's tail.
func (u *unborn) expect(e *core.Entry) {
	for _, rec := range e.Records {
		if began, ok := rec.(core.AttemptStarted); ok && began.Child != (core.RunID{}) {
			u.lost = append(u.lost, lostChild{e.Run, began.Child, began.Step})
		}
	}
}

// loseUnborn ends the attempts whose child runs have not begun because a process died before. They are lost, and others
// begin in their place. A parent that is set aside is read later: by the next owner from the tail, or by
// resumeSetAside.
func (p *Partition) loseUnborn() {
	lost := p.children.unborn.lost
	p.children.unborn.lost = nil
	for _, l := range lost {
		parent := p.residents.runs[l.parent]
		if parent == nil || parent.state.Steps[l.step].Child != l.child || !p.neverBegan(l.child) {
			continue
		}
		p.loseChild(parent, l.step, l.child)
		p.settle()
	}
}

// neverBegan reports whether a child run of this partition is not there, and is not about to begin either.
func (p *Partition) neverBegan(child core.RunID) bool {
	if !p.owns(child) || p.residents.runs[child] != nil || p.residents.aside[child] != nil ||
		p.children.unborn.starts[child] != nil {
		return false
	}
	_, err := p.cfg.Journal.History(p.ctx, child)
	return !p.noteTemporary(err) && errors.Is(err, journal.ErrNotFound)
}

// loseChild ends the attempt of a step whose child run has never begun.
func (p *Partition) loseChild(parent *run, step core.StepID, child core.RunID) {
	p.receive(&core.Message{To: parent.id(), Content: core.ChildEnded{
		Step: step, Attempt: parent.state.Steps[step].Attempt, Child: child, Failure: &policy.Failure{
			Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the engine was gone before it began",
		},
	}})
}
