package flow

import (
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// A step with forEach and without an action is a loop: other steps name it with each and are done once for each of its
// items. An item of such a step begins when what it needs has ended for that item; nothing waits for other items. Loops
// may stand in loops, and items may make more items.
//
// All of it is kept as steps: an item of a loop is a recorded value, which says where it came from. So the items of a
// loop are numbered in the order in which they were found, and a run that was loaded finds the same ones.

// loop is what is known of a loop's items.
type loop struct {
	items   []loopItem
	lists   map[int32]*loopList // by the item of the loop around it, 0 where there is none
	open    int                 // lists that are not known yet, and items that may make more
	dead    bool                // a list never comes: what it is made of did not succeed
	failure *policy.Failure     // of the first list that cannot be evaluated
	ended   bool                // all items are known, and those of the loops around it
}

type loopItem struct {
	value  any
	parent int32    // the item of the loop around it, 0 where there is none
	after  int32    // the item that made it, or -1: it stood in the list
	more   progress // whether it is known what it makes
}

// loopList is the part of a loop that belongs to one item of the loop around it.
type loopList struct {
	state progress
	items []int32
	open  int  // items that may make more
	dead  bool // an item never makes what it should have made
}

type progress uint8

const (
	progressOpen progress = iota
	progressDone
	progressDead
)

// loopRecord is what is recorded of an item.
type loopRecord struct {
	Value  json.RawMessage `json:"value"`
	Parent int32           `json:"in,omitempty"`
	After  int32           `json:"after"`
}

// upstreamType is the type of a group's failure that only says: what its items need did not succeed.
const upstreamType = core.FailureUpstream

func (d *decider) loopOf(def int32) *loop {
	l := d.loops[def]
	if l == nil {
		if d.loops == nil {
			d.loops = map[int32]*loop{}
		}
		l = &loop{lists: map[int32]*loopList{}}
		d.loops[def] = l
	}
	return l
}

func (l *loop) list(parent int32) *loopList {
	list := l.lists[parent]
	if list == nil {
		list = &loopList{}
		l.lists[parent] = list
	}
	return list
}

// add appends an item.
func (l *loop) add(item loopItem) int32 {
	n := int32(len(l.items))
	l.items = append(l.items, item)
	list := l.list(item.parent)
	list.items = append(list.items, n)
	return n
}

// found takes note of a recorded item of a loop.
func (d *decider) found(def int32, s *core.Step) {
	l := d.loopOf(def)
	if int(s.Item) < len(l.items) {
		return
	}
	var rec loopRecord
	if json.Unmarshal(s.Output, &rec) != nil {
		return // no loop of this document recorded it
	}
	value, _ := expr.Decode(rec.Value)
	l.add(loopItem{value: value, parent: rec.Parent, after: rec.After})
}

// up returns the item of the loop to that an item of the loop from belongs to; to is from or around it.
func (d *decider) up(from, n, to int32) int32 {
	for from != to {
		n = d.loops[from].items[n].parent
		from = d.def.plans[from].loop
	}
	return n
}

// beneath calls f with each item of the loop at that belongs to item n of the loop from; at is from or inside it.
func (d *decider) beneath(from, n, at int32, f func(n int32) bool) bool {
	if at == from {
		return f(n)
	}
	next := d.def.plans[at].inside(from)
	list := d.loopOf(next).list(n)
	for i := 0; i < len(list.items); i++ {
		if !d.beneath(next, list.items[i], at, f) {
			return false
		}
	}
	return true
}

// inside returns the loop next inside from, on the way to this loop; from -1 is the run itself.
func (p *plan) inside(from int32) int32 {
	return p.path[slices.Index(p.path, from)+1]
}

// listState says how far a loop's list for one item of the loop around it is.
func (d *decider) listState(def, parent int32) stepState {
	switch list := d.loopOf(def).list(parent); {
	case list.state == progressDead || list.state == progressDone && list.open == 0 && list.dead:
		return stateUpstream
	case list.state == progressOpen || list.open > 0:
		return stateOpen
	default:
		return stateGood
	}
}

// itemState says how an item of a step with each is doing.
func (t *turn) itemState(def, n int32) stepState {
	g := t.groupOf(def)
	if int(n) >= len(g.items) || g.items[n] == core.NoStep {
		return stateNone
	}
	id := g.items[n]
	if int(id) >= len(t.run.Steps) {
		return t.made[id]
	}
	return t.classify(t.def.plans[def].item, &t.run.Steps[id])
}

// under says how the part of a step is doing that belongs to item n of the loop around both.
func (t *turn) under(def, around, n int32) stepState {
	p := &t.def.plans[def]
	if p.loop == around {
		if p.isLoop {
			return t.listState(def, n)
		}
		return t.itemState(def, n)
	}
	next := t.def.plans[p.loop].inside(around)
	state := t.listState(next, n)
	if !state.closed() {
		return state
	}
	for _, item := range t.loopOf(next).list(n).items {
		switch of := t.under(def, next, item); {
		case !of.closed():
			return of
		case of != stateGood && state == stateGood:
			state = of
		}
	}
	return state
}

// needed says whether all that an item needs has ended, and whether it ended well.
func (t *turn) needed(p *plan, n int32) (ended, well bool) {
	well = true
	for i, need := range p.needs {
		state := t.nodes[need].state
		if around := p.common[i]; around >= 0 {
			state = t.under(need, around, t.up(p.loop, n, around))
		}
		if !state.closed() {
			return false, false
		}
		well = well && state == stateGood
	}
	return true, well
}

// beginLoop begins a loop, with what stands in it.
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

// resumeLoop takes up a loop of a run that was loaded, with what stands in it.
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

// restoreList marks what is known of a list, and of what its items make.
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

// fillList records the items of a list, and lets them begin.
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
			value = []byte("null") // what expressions give can be written
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

// itemScope is what the expressions of an item see before an attempt.
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

// note remembers the state of a step that a command of this turn makes.
func (t *turn) note(id core.StepID, state stepState) {
	if t.made == nil {
		t.made = map[core.StepID]stepState{}
	}
	t.made[id] = state
}

// itemClosed lets begin what waited for an item of a step with each.
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

// endLoop ends a loop all of whose items are known, and what stands in it.
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

// itemOutput is the output of an item of a step with each, null where it did not succeed.
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
