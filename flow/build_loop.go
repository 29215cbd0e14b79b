package flow

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// loops finds the loops, and the steps in them.
func (b *builder) loops() {
	plans := b.def.plans
	for i, s := range b.doc.Steps {
		plans[i].loop, plans[i].isLoop = -1, hasList(s) && s.Action == nil
	}
	for i, s := range b.doc.Steps {
		if s.Each == "" {
			continue
		}
		b.step = s.Name
		def, known := b.def.byName[s.Each]
		switch {
		case !known:
			b.stepFail(s.each, nearest.Hint(s.Each, b.def.language.Steps()), "there is no loop %q", s.Each)
		case !plans[def].isLoop:
			b.stepFail(s.each, "give what it does to a step of its own", "%q is not a loop: a loop has forEach "+
				"and does nothing itself", s.Each)
		case hasList(s) && s.Action != nil:
			b.stepFail(s.each, "give what it does to a step of its own", "a step with each and forEach is a loop in "+
				"the loop, and does nothing itself")
		default:
			plans[i].loop = def
		}
	}
	for i := range b.doc.Steps {
		if plans[i].isLoop && plans[i].path == nil {
			b.loopPath(int32(i), 0)
		}
		if s := b.doc.Steps[i]; !s.More.IsZero() && !plans[i].isLoop {
			b.step = s.Name
			b.stepFail(s.pos, "", "more makes items of a loop, which has forEach and does nothing itself")
		}
	}
	for i := range b.doc.Steps {
		def := int32(i)
		if plans[i].isLoop {
			plans[i].tree = append([]int32{def}, plans[i].tree...)
		}
		if loop := plans[i].loop; loop >= 0 {
			plans[loop].members = append(plans[loop].members, def)
		}
		for loop := plans[i].loop; loop >= 0; loop = plans[loop].loop {
			plans[loop].tree = append(plans[loop].tree, def)
		}
	}
}

// maxLoops bounds loops in loops.
const maxLoops = 32

func (b *builder) loopPath(def int32, depth int) []int32 {
	p := &b.def.plans[def]
	if p.path != nil {
		return p.path
	}
	outer := []int32{-1}
	switch {
	case p.loop >= 0 && depth >= maxLoops:
		b.step = b.doc.Steps[def].Name
		b.stepFail(b.doc.Steps[def].each, "", "loops stand in each other in a circle, or more than %d deep", maxLoops)
		p.loop = -1
	case p.loop >= 0:
		outer = b.loopPath(p.loop, depth+1)
	}
	p.path = append(slices.Clone(outer), def)
	return p.path
}

// common returns the innermost loop around two loops, either of which may be it, or -1.
func (d *definition) common(one, other int32) int32 {
	if one < 0 || other < 0 {
		return -1
	}
	common := int32(-1)
	a, b := d.plans[one].path, d.plans[other].path
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		common = a[i]
	}
	return common
}

// loopNeeds works out which part of a step is needed by a step in a loop.
func (b *builder) loopNeeds() {
	for i := range b.doc.Steps {
		p := &b.def.plans[i]
		p.common = make([]int32, len(p.needs))
		for k, need := range p.needs {
			p.common[k] = b.def.common(p.loop, b.def.plans[need].loop)
			if slices.Contains(b.def.pathOf(p.loop), need) {
				b.step = b.doc.Steps[i].Name
				b.stepFail(b.doc.Steps[i].pos, "leave it out of needs", "the step needs its own loop %q, which it is "+
					"part of", b.doc.Steps[need].Name)
			}
		}
	}
}

func (d *definition) pathOf(loop int32) []int32 {
	if loop < 0 {
		return nil
	}
	return d.plans[loop].path
}

// more compiles what gives a loop more items. It may use the steps in the loop.
func (b *builder) more(def int32, s *Step) {
	if s.More.IsZero() {
		return
	}
	p := &b.def.plans[def]
	b.ordinal, b.uses = -1, map[int32]bool{}
	p.more = b.compiler.Template(tree.NodeOf(s.More), varsFlow|varsItem, false)
	uses := b.uses
	b.ordinal, b.uses = def, nil
	for need := range uses {
		if need == def || slices.Contains(p.path, need) {
			continue
		}
		if !slices.Contains(p.tree, need) {
			b.stepFail(s.pos, "use steps with each: "+s.Name, "more uses steps.%s, which is not in the loop",
				b.doc.Steps[need].Name)
			continue
		}
		p.moreNeeds = append(p.moreNeeds, need)
		b.def.plans[need].feeds = append(b.def.plans[need].feeds, def)
	}
	slices.Sort(p.moreNeeds)
}

// edges lists the steps that must have begun or ended before a step can end: its needs, its loop, and those that give
// more items to a loop all of whose items it waits for.
func (b *builder) edges(def int32) []int32 {
	p := &b.def.plans[def]
	out := slices.Clone(p.needs)
	add := func(def int32) {
		if !slices.Contains(out, def) {
			out = append(out, def)
		}
	}
	if p.loop >= 0 {
		add(p.loop)
	}
	for _, step := range p.watches {
		add(step)
	}
	for k, need := range p.needs {
		loop := b.def.plans[need].loop
		if b.def.plans[need].isLoop {
			loop = need
		}
		for ; loop >= 0 && loop != p.common[k]; loop = b.def.plans[loop].loop {
			for _, need := range b.def.plans[loop].moreNeeds {
				add(need)
			}
		}
	}
	return out
}
