package flow

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// group is an open forEach.
type group struct {
	id     core.StepID
	items  []core.StepID // the items by index; NoStep: not begun
	list   []any
	loaded bool
	next   int // the first index that was not looked at
	open   int // items that run
	done   int // items that have ended

	// Only for loops with each.
	waiting  []int32 // items that could begin if there were room, in their order
	closed   []bool  // true for the items whose end was taken account of, by index
	finished bool
}

// mark notes an item's end. It returns false if that was noted before.
func (g *group) mark(n int32) bool {
	for len(g.closed) <= int(n) {
		g.closed = append(g.closed, false)
	}
	if g.closed[n] {
		return false
	}
	g.closed[n] = true
	return true
}

func (d *decider) groupOf(def int32) *group {
	g := d.groups[def]
	if g == nil {
		if d.groups == nil {
			d.groups = map[int32]*group{}
		}
		g = &group{id: core.NoStep}
		d.groups[def] = g
	}
	return g
}

func (g *group) set(item int32, id core.StepID) {
	g.grow(int(item) + 1)
	g.items[item] = id
}

func (g *group) grow(n int) {
	for len(g.items) < n {
		g.items = append(g.items, core.NoStep)
	}
}

// load evaluates the group's list. It is the same each time: it depends on the run's input and on steps that have
// ended.
func (g *group) load(p *plan, s *scope) error {
	if g.loaded {
		return nil
	}
	v, err := p.list.Eval(s)
	if err != nil {
		return err
	}
	if p.axes != nil {
		if v, err = product(p, v); err != nil {
			return err
		}
	}
	list, ok := expr.ListOf(v)
	if !ok {
		return p.list.Wrong("a list is expected, not %s", expr.TypeName(v))
	}
	if len(list) > maxItems {
		return p.list.Wrong("the list has %d items, the limit is %d", len(list), maxItems)
	}
	g.list, g.loaded = list, true
	return nil
}

// maxItems bounds a forEach: every item is a step in the run's state.
const maxItems = 1_000_000

// beginGroup begins a forEach and its first items. The machine numbers steps in the order of the commands that make
// them, so the items can refer to their group before it is recorded.
func (t *turn) beginGroup(def int32) {
	p := &t.def.plans[def]
	g := t.groupOf(def)
	cmd := core.Schedule{Spec: p.spec, Item: -1, Group: core.NoStep}
	if err := g.load(p, t.scope()); err != nil {
		cmd.Failure = broken("forEach", p.where(), err)
		t.schedule(cmd)
		delete(t.groups, def)
		return
	}
	g.id = t.schedule(cmd)
	t.nodes[def].id = g.id
	t.count(g)
	t.fill(def, g)
}

// resume takes up a forEach of a run that was loaded.
func (t *turn) resume(def int32) {
	g := t.groupOf(def)
	g.id = t.nodes[def].id
	s := t.scope()
	s.now = t.run.Steps[g.id].ScheduledAt
	if err := g.load(&t.def.plans[def], s); err != nil {
		t.cmds = append(t.cmds, core.Finish{Step: g.id, Failure: broken("forEach", t.def.plans[def].where(), err)})
		return
	}
	t.count(g)
	t.fill(def, g)
}

// countItems returns the number of items of a forEach, including those that have not begun. It returns false if the
// step is not a forEach, or its list cannot be evaluated.
func (d *definition) countItems(r *core.Run, s *core.Step) (int, bool) {
	def, known := d.ordinal(s)
	if !known || d.plans[def].item < 0 || s.Group != core.NoStep {
		return 0, false
	}
	dec := newDecider(d)
	dec.register(r)
	if p := &d.plans[def]; p.isLoop {
		return len(dec.loopOf(def).items), true
	} else if p.loop >= 0 {
		return len(dec.loopOf(p.loop).items), true
	}
	g := dec.groupOf(def)
	if err := g.load(&d.plans[def], &scope{decider: dec, run: r, now: s.ScheduledAt}); err != nil {
		return 0, false
	}
	return len(g.list), true
}

// count counts the existing items: those of a loaded run, or results kept from an earlier one.
func (t *turn) count(g *group) {
	g.grow(len(g.list))
	g.open, g.done = 0, 0
	for _, id := range g.items[:len(g.list)] {
		switch {
		case id == core.NoStep:
		case t.run.Steps[id].Phase.Closed():
			g.done++
		default:
			g.open++
		}
	}
}

// fill begins items up to the concurrency, and ends the group when all have ended.
func (t *turn) fill(def int32, g *group) {
	p := &t.def.plans[def]
	item := &t.def.plans[p.item]
	for ; g.next < len(g.list) && g.open < p.concurrency; g.next++ {
		if g.items[g.next] != core.NoStep {
			continue
		}
		s := t.scope()
		s.item, s.index = g.list[g.next], g.next
		g.items[g.next] = t.schedule(t.command(item, s, int32(g.next), g.id))
		g.open++
	}
	if g.done == len(g.list) {
		output, failure := t.results(item, g)
		t.cmds = append(t.cmds, core.Finish{Step: g.id, Output: output, Failure: failure})
	}
}

func (t *turn) closeItem(def int32, s *core.Step) {
	if p := &t.def.plans[def]; p.isLoop {
		return // it is a value, which has always ended
	} else if p.loop >= 0 {
		t.itemClosed(def, s.Item)
		return
	}
	g := t.groups[def]
	if g == nil || !g.loaded || g.id == core.NoStep {
		return
	}
	g.open--
	g.done++
	if !t.run.Steps[g.id].Phase.Closed() { // else the group's own limit has expired in the same turn
		t.fill(def, g)
	}
}

// results returns the list of the items' outputs, null for an item that did not succeed, and the failure of the first
// item that counts as one.
func (t *turn) results(item *plan, g *group) ([]byte, *policy.Failure) {
	output := make([]byte, 0, 2+8*len(g.list))
	output = append(output, '[')
	var first *core.Step
	bad := 0
	for i, id := range g.items[:len(g.list)] {
		if i > 0 {
			output = append(output, ',')
		}
		if int(id) >= len(t.run.Steps) { // skipped in the same turn
			output = append(output, "null"...)
			continue
		}
		s := &t.run.Steps[id]
		if s.Phase == core.StepSucceeded && json.Valid(s.Output) {
			output = append(output, s.Output...)
		} else {
			output = append(output, "null"...)
		}
		if s.Phase != core.StepSucceeded && s.Phase != core.StepSkipped && !item.tolerant(s) {
			// A failed item outweighs a cancelled one.
			if first == nil || first.Phase == core.StepCancelled && s.Phase != core.StepCancelled {
				first = s
			}
			bad++
		}
	}
	output = append(output, ']')
	if first == nil {
		return output, nil
	}
	f := policy.Failure{Kind: policy.KindError}
	if first.Failure != nil {
		f = *first.Failure
		f.Cause = first.Failure
	}
	f.Message = fmt.Sprintf("%d of %d items did not succeed; first %s%s: %s", bad, len(g.list), first.Key(),
		t.def.inParentheses(t.run, first), f.Message)
	f.RetryAfter = nil
	return output, &f
}
