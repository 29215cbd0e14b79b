package flow

import (
	"slices"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// stale finds the steps about which a retry of some steps decides again. Results that a rerun has kept from an earlier
// run are not among them: they do not follow from this run's failures.
type stale struct {
	*decider
	run   *core.Run
	whole []bool                   // steps, by ordinal
	items map[int32]map[int32]bool // items of steps with each, by ordinal and number
}

// dependents returns the decided steps that need one of some steps, directly or not.
func (d *definition) dependents(r *core.Run, retried []core.StepID) []core.StepID {
	s := &stale{decider: newDecider(d), run: r, whole: make([]bool, d.steps), items: map[int32]map[int32]bool{}}
	s.register(r)
	for _, id := range retried {
		step := &r.Steps[id]
		def, known := d.ordinal(step)
		switch {
		case !known || step.Spec.Hook:
		case def < d.steps:
			s.followStep(def)
		case d.plans[d.plans[def].group].loop >= 0:
			s.followItem(d.plans[def].group, step.Item)
		default:
			s.followStep(d.plans[def].group)
		}
	}
	var out []core.StepID
	for i := range r.Steps {
		if s.has(&r.Steps[i]) {
			out = append(out, core.StepID(i))
		}
	}
	return out
}

// has reports whether a step is decided again. The group of a step with each goes on with its loop: only its items are.
func (s *stale) has(step *core.Step) bool {
	def, known := s.def.ordinal(step)
	if !known || step.Dropped || step.Kept || step.Spec.Hook {
		return false
	}
	if def < s.def.steps {
		loop := s.def.plans[def].loop
		return s.whole[def] && (loop < 0 || s.whole[s.rootOf(loop)])
	}
	group := s.def.plans[def].group
	if group < 0 || group >= s.def.steps {
		return false
	}
	return s.whole[group] || !s.def.plans[group].isLoop && s.items[group][step.Item]
}

// rootOf returns the outermost loop around a loop, or the loop itself.
func (s *stale) rootOf(loop int32) int32 { return s.def.plans[loop].path[1] }

// followStep marks what needs a step that is made again. If both are in one loop, the items of the step decide.
func (s *stale) followStep(def int32) {
	p := &s.def.plans[def]
	for _, dependent := range p.dependents {
		if s.def.plans[dependent].commonWith(def) < 0 {
			s.mark(dependent)
		}
	}
	for _, wait := range p.ends {
		if s.endedBy(wait, def) {
			s.mark(wait)
		}
	}
}

// followItem marks what needs an item of a step with each that is made again.
func (s *stale) followItem(def, n int32) {
	p := &s.def.plans[def]
	for _, dependent := range p.dependents {
		other := &s.def.plans[dependent]
		around := other.commonWith(def)
		if around < 0 {
			s.mark(dependent)
			continue
		}
		s.beneath(around, s.up(p.loop, n, around), other.loop, func(n int32) bool {
			s.markItem(dependent, n)
			return true
		})
	}
	for _, loop := range p.feeds {
		if slices.Contains(s.def.plans[p.loop].path, loop) && s.made(loop, s.up(p.loop, n, loop)) {
			s.mark(s.rootOf(loop))
		}
	}
}

// mark marks a whole step, and the steps that need it.
func (s *stale) mark(def int32) {
	p := &s.def.plans[def]
	if id := s.nodes[def].id; s.whole[def] || id != core.NoStep && s.run.Steps[id].Kept {
		return
	}
	s.whole[def] = true
	switch {
	case p.isLoop && p.loop < 0:
		for _, member := range p.tree[1:] {
			s.whole[member] = true
			s.followStep(member)
		}
	case p.isLoop: // its items are numbered with those of all its lists
		s.mark(s.rootOf(p.loop))
	case p.loop >= 0:
		for n := range s.loopOf(p.loop).items {
			s.followItem(def, int32(n))
		}
	}
	s.followStep(def)
}

// markItem marks an item of a step with each, or the list of a loop in a loop, and the parts that need it.
func (s *stale) markItem(def, n int32) {
	if s.items[def][n] || s.whole[def] {
		return
	}
	if s.items[def] == nil {
		s.items[def] = map[int32]bool{}
	}
	s.items[def][n] = true
	p := &s.def.plans[def]
	if !p.isLoop {
		s.followItem(def, n)
		return
	}
	if len(s.loopOf(def).list(n).items) > 0 {
		s.mark(s.rootOf(p.loop))
	}
}

// made reports whether an item of a loop has made further items.
func (s *stale) made(loop, n int32) bool {
	return slices.ContainsFunc(s.loopOf(loop).items, func(item loopItem) bool { return item.after == n })
}

// policies compiles the retry conditions of shared settings, which cannot refer to other steps.
func (b *builder) policies() {
	shared := []policy.Policy{b.doc.Defaults.Policy}
	for _, s := range b.doc.Services {
		shared = append(shared, s.Policy)
	}
	for _, p := range shared {
		b.retryCondition(p.Retry, (varsTask|varsItem)&^expr.VarSteps)
	}
	b.retryCondition(b.doc.Retry, (varsRun|expr.VarAttempt|expr.VarCode|expr.VarFailure)&^expr.VarNow)
	for i, s := range b.doc.Steps {
		b.step, b.ordinal = s.Name, int32(i)
		vars := varsTask
		if hasList(s) || s.Each != "" {
			vars |= varsItem
		}
		b.retryCondition(s.Policy.Retry, vars)
	}
	h := &b.doc.Hooks
	for _, steps := range [][]*Step{h.OnSuccess, h.OnFailure, h.OnTimeout, h.OnCancel, h.OnExit} {
		for _, s := range steps {
			b.step, b.ordinal = s.Name, -1
			b.retryCondition(s.Policy.Retry, varsHook)
		}
	}
	for _, entry := range b.doc.Notify {
		if entry.Step != nil {
			b.step, b.ordinal = entry.Step.Name, -1
			b.retryCondition(entry.Step.Policy.Retry, varsHook)
		}
	}
}

func (b *builder) retryCondition(r *policy.Retry, vars expr.Vars) {
	if r == nil || r.When == "" {
		return
	}
	n := b.doc.whens[r]
	if n == nil {
		n = &tree.Node{Kind: tree.Text, Text: r.When}
	}
	if p := b.compiler.Condition(n, vars); p != nil {
		b.def.whens[r.When] = p
	}
}
