package flow

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// A step with forEach and without an action is a loop: other steps name it with each and run once for each of its
// items. An item of such a step begins when its needs have ended for that item; nothing waits for other items. Loops
// may contain loops, and items may make more items.
//
// Everything is stored as steps: an item of a loop is a recorded value with its origin. So the items of a loop are
// numbered in the order in which they were found, and a run that was loaded finds the same ones.

// loop is the state of a loop's items.
type loop struct {
	items   []loopItem
	lists   map[int32]*loopList // lists by the item of the loop around it, 0 if there is none
	open    int                 // lists that are not known yet, and items that may make more
	dead    bool                // a list never comes: what it is made of did not succeed
	failure *policy.Failure     // failure of the first list that cannot be evaluated
	ended   bool                // all items are known, and those of the loops around it
}

type loopItem struct {
	value  any
	parent int32    // the item of the loop around it, 0 if there is none
	after  int32    // the item that made it, or -1 if it is from the list
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

// loopRecord is the recorded form of an item.
type loopRecord struct {
	Value  json.RawMessage `json:"value"`
	Parent int32           `json:"in,omitempty"`
	After  int32           `json:"after"`
}

// upstreamType is the type of the failure of a group whose items' needs did not succeed.
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

// inside returns the loop directly inside from, on the way to this loop; from -1 is the run itself.
func (p *plan) inside(from int32) int32 {
	return p.path[slices.Index(p.path, from)+1]
}

// listState returns the state of a loop's list for one item of the loop around it.
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

// itemState returns the state of an item of a step with each.
func (t *turn) itemState(def, n int32) stepState {
	g := t.groupOf(def)
	if int(n) >= len(g.items) || g.items[n] == core.NoStep {
		if of := t.nodes[def].state; of.closed() {
			return of // it never begins: its step was ended as a whole
		}
		return stateNone
	}
	id := g.items[n]
	if int(id) >= len(t.run.Steps) {
		return t.made[id]
	}
	return t.classify(t.def.plans[def].item, &t.run.Steps[id])
}

// under returns the state of the part of a step that belongs to item n of the loop around both.
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

// needed reports whether all needs of an item have ended, and whether they ended well.
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

// candidate is a part of a loop that may begin now: an item of a step with each, a list of a loop in a loop, or the
// items that an item of a loop makes.
type candidate struct {
	def  int32
	more bool
	item int32
}

// candidates are the parts of loops that still have to be tried in a turn. They are tried in the order of the document
// and of the items, in whatever order they were found: so a loaded run makes the same decisions as one that stayed in
// memory.
type candidates struct {
	heap  candidateHeap
	known map[candidate]bool
}

func (c *candidates) push(one candidate) {
	if c.known[one] {
		return
	}
	if c.known == nil {
		c.known = map[candidate]bool{}
	}
	c.known[one] = true
	heap.Push(&c.heap, one)
}

func (c *candidates) pop() (candidate, bool) {
	if len(c.heap) == 0 {
		return candidate{}, false
	}
	one, _ := heap.Pop(&c.heap).(candidate)
	delete(c.known, one)
	return one, true
}

type candidateHeap []candidate

func (h candidateHeap) Len() int { return len(h) }

func (h candidateHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.def != b.def {
		return a.def < b.def
	}
	if a.more != b.more {
		return b.more
	}
	return cmp.Less(a.item, b.item)
}

func (h candidateHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *candidateHeap) Push(v any) {
	one, _ := v.(candidate)
	*h = append(*h, one)
}

func (h *candidateHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	*h = (*h)[:last]
	return one
}
