package flow

import (
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
)

// beginLoop begins a loop, with the steps in it.
func (t *turn) beginLoop(def int32) {
	p := &t.def.plans[def]
	v, err := t.evalList(p, t.scope())
	if err != nil {
		t.nodes[def].id = t.schedule(core.Schedule{
			Spec: p.spec, Item: -1, Group: core.NoStep,
			Failure: broken("forEach", p.where(), err),
		})
		for _, member := range p.tree[1:] {
			t.skip(member, "its loop, "+p.spec.Name+", failed", true)
		}
		return
	}
	for _, member := range p.tree {
		node := &t.nodes[member]
		node.state = stateOpen
		node.id = t.schedule(core.Schedule{Spec: t.def.plans[member].spec, Item: -1, Group: core.NoStep})
		t.groupOf(member).id = node.id
	}
	t.loopOf(def).open = 1
	t.fillList(def, 0, v)
}

func (t *turn) evalList(p *plan, s *scope) ([]any, error) {
	g := &group{}
	err := g.load(p, s)
	return g.list, err
}

// resumeLoop restores a loop of a loaded run, with the steps in it.
func (t *turn) resumeLoop(def int32) {
	for _, member := range t.def.plans[def].tree {
		p := &t.def.plans[member]
		t.groupOf(member).id = t.nodes[member].id
		switch {
		case member == def:
			t.restoreList(def, 0)
		case p.isLoop:
			for n := range t.loopOf(p.loop).items {
				t.restoreList(member, int32(n))
			}
		}
	}
	for _, member := range t.def.plans[def].tree {
		if !t.def.plans[member].isLoop {
			t.restoreItems(member)
		} else if t.nodes[member].state.closed() {
			t.closeLists(member)
		}
	}
	for _, member := range t.def.plans[def].tree {
		p := &t.def.plans[member]
		if p.more != nil {
			for n := range t.loopOf(member).items {
				t.later.push(candidate{member, true, int32(n)})
			}
		}
		if p.isLoop && p.loop < 0 {
			t.later.push(candidate{def: member})
		} else {
			t.tryAll(member)
		}
	}
	t.touch(def)
}

// restoreList restores the items of a list, and those that its items make.
func (t *turn) restoreList(def, parent int32) {
	l, p := t.loopOf(def), &t.def.plans[def]
	list := l.list(parent)
	l.open++
	for _, n := range list.items {
		if item := &l.items[n]; item.after < 0 {
			list.state = progressDone
		} else {
			l.items[item.after].more = progressDone
		}
	}
	if list.state == progressDone {
		l.open--
	}
	if p.more == nil {
		return
	}
	for _, n := range list.items {
		if l.items[n].more == progressOpen {
			l.open++
			list.open++
		}
	}
}

func (t *turn) restoreItems(def int32) {
	g := t.groupOf(def)
	g.grow(len(t.loopOf(t.def.plans[def].loop).items))
	g.open, g.done = 0, 0
	for n, id := range g.items {
		switch {
		case id == core.NoStep:
		case t.run.Steps[id].Phase.Closed():
			g.done++
			g.mark(int32(n))
		default:
			g.open++
		}
	}
}

// fillList records the items of a list, and allows them to begin.
func (t *turn) fillList(def, parent int32, values []any) {
	l := t.loopOf(def)
	list := l.list(parent)
	list.state = progressDone
	l.open--
	t.addItems(def, parent, -1, values)
	t.listChanged(def, parent)
}

// addItems records further items of a loop.
func (t *turn) addItems(def, parent, after int32, values []any) {
	l, p := t.loopOf(def), &t.def.plans[def]
	from := len(l.items)
	for _, v := range values {
		if len(l.items) >= maxItems {
			l.failure = broken("forEach", p.where(), p.list.Wrong("the loop has more than %d items", maxItems))
			break
		}
		n := l.add(loopItem{value: v, parent: parent, after: after})
		value, err := json.Marshal(v)
		if err != nil {
			value = []byte("null") // every result of an expression can be written
		}
		output, _ := json.Marshal(loopRecord{Value: value, Parent: parent, After: after})
		g := t.groupOf(def)
		id := t.next
		t.cmds = append(t.cmds, core.AddItem{Spec: t.def.plans[p.item].spec, Item: n, Group: g.id, Output: output})
		t.next++
		g.set(n, id)
		if p.more != nil {
			l.open++
			l.list(parent).open++
		}
		for _, member := range p.members {
			if t.def.plans[member].isLoop {
				t.loopOf(member).open++
			} else {
				t.groupOf(member).grow(int(n) + 1)
			}
		}
	}
	for n := from; n < len(l.items); n++ {
		for _, member := range p.members {
			t.later.push(candidate{def: member, item: int32(n)})
		}
		if p.more != nil {
			t.later.push(candidate{def, true, int32(n)})
		}
	}
}

// try begins an item of a step with each, or finds the items of a loop in a loop, if what it needs has ended.
func (t *turn) try(def, n int32) {
	p := &t.def.plans[def]
	if p.isLoop {
		if t.loopOf(def).list(n).state != progressOpen {
			return
		}
		if t.nodes[def].state.closed() {
			t.closeLists(def)
			return
		}
	} else if g := t.groupOf(def); g.items[n] != core.NoStep || t.nodes[def].state.closed() {
		return
	}
	ended, well := t.needed(p, n)
	if !ended {
		return
	}
	if p.isLoop {
		t.expand(def, n, well)
		return
	}
	t.beginItem(def, n, well)
}

// tryAll tries all items of a step, or of a loop in a loop.
func (t *turn) tryAll(def int32) {
	l := t.loopOf(t.def.plans[def].loop)
	for n := 0; n < len(l.items); n++ {
		t.later.push(candidate{def: def, item: int32(n)})
	}
}

// expand evaluates a loop's list for one item of the loop around it.
func (t *turn) expand(def, n int32, well bool) {
	p, l := &t.def.plans[def], t.loopOf(def)
	if well {
		values, err := t.evalList(p, t.itemScope(p.loop, n))
		if err == nil {
			t.fillList(def, n, values)
			return
		}
		if l.failure == nil {
			l.failure = broken("forEach", p.where(), err)
		}
	}
	l.list(n).state = progressDead
	l.dead = true
	l.open--
	t.listChanged(def, n)
}

// tryMore finds the items that an item makes, if what they are made of has ended.
func (t *turn) tryMore(def, n int32) {
	p, l := &t.def.plans[def], t.loopOf(def)
	if p.more == nil || l.items[n].more != progressOpen {
		return
	}
	well := true
	for _, need := range p.moreNeeds {
		state := t.under(need, def, n)
		if !state.closed() {
			return
		}
		well = well && state == stateGood
	}
	item := &l.items[n]
	item.more = progressDone
	parent := item.parent
	list := l.list(parent)
	l.open--
	list.open--
	var values []any
	if well {
		g := &group{}
		if err := g.load(&plan{list: p.more}, t.itemScope(def, n)); err == nil {
			values = g.list
		} else {
			well = false
			if l.failure == nil {
				l.failure = broken("more", p.where(), err)
			}
		}
	}
	if !well {
		l.items[n].more, l.dead, list.dead = progressDead, true, true
	}
	t.addItems(def, parent, n, values)
	t.listChanged(def, parent)
}

// itemScope returns the scope of an item's expressions before an attempt.
func (t *turn) itemScope(loop, n int32) *scope {
	s := t.scope()
	s.around, s.index, s.item = loop+1, int(n), t.loopOf(loop).items[n].value
	return s
}

// beginItem begins an item of a step with each, or skips it.
func (t *turn) beginItem(def, n int32, well bool) {
	p, g := &t.def.plans[def], t.groupOf(def)
	item := &t.def.plans[p.item]
	skip := func(reason string, upstream bool) {
		t.cmds = append(t.cmds, core.Skip{Spec: item.spec, Item: n, Group: g.id, Reason: reason, Upstream: upstream})
		g.items[n] = t.next
		state := stateGood
		if upstream {
			state = stateUpstream
		}
		t.note(t.next, state)
		t.next++
		g.open++
		t.itemClosed(def, n)
	}
	if !well {
		skip("what it needs did not succeed", true)
		return
	}
	s := t.itemScope(p.loop, n)
	if p.when != nil {
		run, err := p.when.Truth(s)
		if err != nil {
			g.items[n] = t.schedule(core.Schedule{
				Spec: item.spec, Item: n, Group: g.id,
				Failure: broken("when", p.where(), &expr.Error{Text: p.when.Text(), Msg: err.Error()}),
			})
			t.note(g.items[n], stateOpen)
			g.open++
			return
		}
		if !run {
			skip("when is false: "+p.when.Text(), false)
			return
		}
	}
	if g.open >= p.concurrency {
		if at, there := slices.BinarySearch(g.waiting, n); !there {
			g.waiting = slices.Insert(g.waiting, at, n)
		}
		return
	}
	g.items[n] = t.schedule(t.command(item, s, n, g.id))
	t.note(g.items[n], stateOpen)
	g.open++
}

// note remembers the state of a step that a command of this turn creates.
func (t *turn) note(id core.StepID, state stepState) {
	if t.made == nil {
		t.made = map[core.StepID]stepState{}
	}
	t.made[id] = state
}

// itemClosed begins items that waited for an item of a step with each.
func (t *turn) itemClosed(def, n int32) {
	g, p := t.groupOf(def), &t.def.plans[def]
	if !g.mark(n) {
		return // a skip of our own
	}
	g.open--
	g.done++
	if room := min(max(p.concurrency-g.open, 0), len(g.waiting)); room > 0 {
		for _, next := range g.waiting[:room] {
			t.later.push(candidate{def: def, item: next})
		}
		g.waiting = g.waiting[room:]
	}
	t.wake(def, p.loop, n)
	t.touch(def)
}

// wake tries what needs the part of a step that belongs to item n of the loop around it.
func (t *turn) wake(def, loop, n int32) {
	for _, d := range t.def.plans[def].dependents {
		other := &t.def.plans[d]
		around := other.commonWith(def)
		if around < 0 || !slices.Contains(t.def.plans[loop].path, around) {
			continue
		}
		t.beneath(around, t.up(loop, n, around), other.loop, func(n int32) bool {
			t.later.push(candidate{def: d, item: n})
			return true
		})
	}
	for _, feeds := range t.def.plans[def].feeds {
		if slices.Contains(t.def.plans[loop].path, feeds) {
			t.later.push(candidate{feeds, true, t.up(loop, n, feeds)})
		}
	}
}
