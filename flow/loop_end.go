package flow

import (
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// listChanged tries what waited for the items of a list to be known.
func (t *turn) listChanged(def, parent int32) {
	p := &t.def.plans[def]
	if p.loop >= 0 && t.listState(def, parent).closed() {
		for _, member := range p.tree {
			t.wake(member, p.loop, parent)
		}
	}
	t.touch(def)
}

// touch notes that a loop, or the loop around a step, may have ended.
func (t *turn) touch(def int32) {
	for t.def.plans[def].loop >= 0 {
		def = t.def.plans[def].loop
	}
	if !slices.Contains(t.touched, def) {
		t.touched = append(t.touched, def)
	}
}

// closeLists ends the search for items of a loop that was ended as a whole, by an operator or because the run was
// cancelled: a list that is not known stays empty, and items make no more items.
func (t *turn) closeLists(def int32) {
	p, l, end := &t.def.plans[def], t.loopOf(def), progressDead
	if t.nodes[def].state == stateGood {
		end = progressDone
	}
	if l.open == 0 {
		return
	}
	for n, item := range l.items {
		if p.more != nil && item.more == progressOpen {
			l.items[n].more = end
			list := l.list(item.parent)
			list.open--
			list.dead = list.dead || end == progressDead
			l.open--
		}
	}
	outer := 1
	if p.loop >= 0 {
		outer = len(t.loopOf(p.loop).items)
	}
	for n := range int32(outer) {
		if list := l.list(n); list.state == progressOpen {
			list.state = end
			l.open--
		}
		t.listChanged(def, n)
	}
	l.dead = l.dead || end == progressDead
}

// wakeUnbegun tries what needs the items of a step with each that never begin, since the step was ended as a whole.
func (t *turn) wakeUnbegun(def int32) {
	loop := t.def.plans[def].loop
	for n := range t.loopOf(loop).items {
		if g := t.groupOf(def); n >= len(g.items) || g.items[n] == core.NoStep {
			t.wake(def, loop, int32(n))
		}
	}
	t.touch(def)
}

// tryLater tries what may begin in loops, and ends the loops that have ended.
func (t *turn) tryLater() {
	for len(t.ready) == 0 {
		one, any := t.later.pop()
		if !any {
			break
		}
		if one.more {
			t.tryMore(one.def, one.item)
		} else {
			t.try(one.def, one.item)
		}
	}
	if len(t.ready) > 0 {
		return
	}
	slices.Sort(t.touched)
	for _, def := range t.touched {
		t.endLoop(def)
	}
	t.touched = nil
}

// endLoop ends a loop all of whose items are known, and the steps in it.
func (t *turn) endLoop(def int32) {
	p, l := &t.def.plans[def], t.loopOf(def)
	if l.open > 0 || p.loop >= 0 && !t.loopOf(p.loop).ended {
		return
	}
	if !l.ended {
		l.ended = true
		if !t.nodes[def].state.closed() {
			output := []byte{'['}
			t.beneath(-1, 0, def, func(n int32) bool {
				value, _ := json.Marshal(l.items[n].value)
				output = appendItem(output, value)
				return true
			})
			t.finish(def, append(output, ']'), t.loopFailure(l))
		}
	}
	for _, member := range p.members {
		if t.def.plans[member].isLoop {
			t.endLoop(member)
		} else {
			t.endEach(member)
		}
	}
}

func appendItem(output, value []byte) []byte {
	if len(output) > 1 {
		output = append(output, ',')
	}
	return append(output, value...)
}

func (t *turn) loopFailure(l *loop) *policy.Failure {
	if l.failure != nil {
		return l.failure
	}
	if !l.dead {
		return nil
	}
	return &policy.Failure{
		Kind: policy.KindError, Type: upstreamType,
		Message: "what some of its lists are made of did not succeed",
	}
}

// endEach ends a step with each when all its items are known and have ended.
func (t *turn) endEach(def int32) {
	p, g := &t.def.plans[def], t.groupOf(def)
	l := t.loopOf(p.loop)
	if !l.ended || g.done < len(l.items) || g.finished || t.nodes[def].state.closed() {
		return
	}
	g.finished = true
	output := []byte{'['}
	bad, skipped := false, 0
	t.beneath(-1, 0, p.loop, func(n int32) bool {
		switch t.itemState(def, n) {
		case stateBad:
			bad = true
		case stateUpstream:
			skipped++
		case stateNone, stateOpen, stateGood:
		}
		output = appendItem(output, t.itemOutput(def, n))
		return true
	})
	output = append(output, ']')
	var failure *policy.Failure
	switch {
	case bad:
		g.list = make([]any, len(g.items))
		_, failure = t.results(&t.def.plans[p.item], g)
	case skipped > 0 || l.dead || l.failure != nil:
		failure = &policy.Failure{
			Kind: policy.KindError, Type: upstreamType, Message: "what some of its items need did not succeed",
		}
	}
	t.finish(def, output, failure)
}

// itemOutput returns the output of an item of a step with each, null if it did not succeed.
func (t *turn) itemOutput(def, n int32) []byte {
	if id := t.groupOf(def).items[n]; int(id) < len(t.run.Steps) {
		if s := &t.run.Steps[id]; s.Phase == core.StepSucceeded && json.Valid(s.Output) {
			return s.Output
		}
	}
	return []byte("null")
}

func (t *turn) finish(def int32, output []byte, failure *policy.Failure) {
	t.cmds = append(t.cmds, core.Finish{Step: t.nodes[def].id, Output: output, Failure: failure})
}
