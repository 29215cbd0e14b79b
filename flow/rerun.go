package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
)

// Rerun chooses the results that a rerun of the named steps keeps from a run of the document: those of all other steps
// that succeeded, or were skipped by their own condition. With from, what needs a named step, directly or not, is
// repeated as well; with from and no names, that is all that failed. One item of a forEach may be named, pages[3] or
// pages[intro]: the forEach is then repeated with the results of its other items.
func Rerun(doc *Document, old *core.Run, steps []string, from bool) ([]core.Kept, error) {
	d, err := doc.definition()
	if err != nil {
		return nil, err
	}
	if from && len(steps) == 0 {
		same := &comparing{was: d, is: d}
		steps = same.names(old, core.FailedSteps(old))
	}
	whole, partly, items, err := d.repeated(old, steps)
	if err != nil {
		return nil, err
	}
	if from {
		d.downstream(whole, partly)
	}
	d.wholeLoops(old, whole, from)
	// The items of a forEach that is kept whole are of no further use, unless an expression names them.
	done := make([]bool, d.steps)
	groups := map[int32]int{}
	for i := range old.Steps {
		s := &old.Steps[i]
		if ordinal, known := d.ordinal(s); known && s.Item < 0 && ordinal < d.steps && !s.Dropped {
			done[ordinal] = isKept(s) && !partly[ordinal] && !whole[ordinal]
		}
	}
	var kept []core.Kept
	for i := range old.Steps {
		s := &old.Steps[i]
		ordinal, known := d.ordinal(s)
		if !known || s.Dropped || s.Spec.Hook {
			continue
		}
		keep, group := false, d.plans[ordinal].group
		switch {
		case s.Item < 0:
			keep = isKept(s) && done[ordinal]
		case done[group]:
			keep = d.language.UsesItems(group) && s.Phase.Closed()
		default:
			keep = isKept(s) && !whole[group] && !items[s.Key()]
		}
		if !keep {
			continue
		}
		kept = append(kept, keptOf(old, s, ordinal))
		if last := len(kept); s.Item >= 0 {
			kept[last-1].Group = groups[group]
		} else {
			groups[ordinal] = last
		}
	}
	return kept, nil
}

// repeated returns which steps some names repeat as a whole, which for some items, and the keys of these items.
func (d *definition) repeated(old *core.Run, names []string) (whole, partly []bool, items map[string]bool, err error) {
	whole, partly, items = make([]bool, d.steps), make([]bool, d.steps), map[string]bool{}
	for _, name := range names {
		base, _, item := strings.Cut(name, "[")
		ordinal, known := d.language.Step(base)
		if !known || item && d.plans[ordinal].item < 0 {
			return nil, nil, nil, fmt.Errorf("flow %q has no step %q", d.doc.Name, name)
		}
		if item {
			if p := &d.plans[ordinal]; p.isLoop || p.loop >= 0 {
				return nil, nil, nil, fmt.Errorf("step %q is part of a loop, of which no single item is repeated: "+
					"name the step", base)
			}
			s, there := core.StepNamed(old, name)
			if !there {
				return nil, nil, nil, fmt.Errorf("step %q of the run had no item %q", base, name)
			}
			partly[ordinal], items[s.Key()] = true, true
		} else {
			whole[ordinal] = true
		}
	}
	return whole, partly, items, nil
}

// keptOf returns the result of a step, to be kept.
func keptOf(old *core.Run, s *core.Step, ordinal int32) core.Kept {
	return core.Kept{
		Def: ordinal, Name: s.Spec.Name, Item: s.Item, Phase: s.Phase, Output: s.Output,
		Actor: core.SentBy(old, s.ID), Failure: s.Failure,
	}
}

// wholeLoops marks all steps of a loop if any part of it is repeated or did not end well, because the steps of a loop
// depend on the same items.
func (d *definition) wholeLoops(old *core.Run, whole []bool, from bool) {
	well := make([]bool, d.steps)
	for i := range old.Steps {
		s := &old.Steps[i]
		if ordinal, known := d.ordinal(s); known && s.Item < 0 && ordinal < d.steps && !s.Dropped {
			well[ordinal] = isKept(s)
		}
	}
	for again := true; again; {
		again = false
		for def := range d.steps {
			p := &d.plans[def]
			if !p.isLoop || p.loop >= 0 || whole[def] || !slices.ContainsFunc(p.tree, func(member int32) bool {
				return whole[member] || !well[member]
			}) {
				continue
			}
			for _, member := range p.tree {
				whole[member] = true
			}
			if again = from; from { // a step that needs the loop may be in another loop
				d.downstream(whole, make([]bool, d.steps))
			}
		}
	}
}

func isKept(s *core.Step) bool {
	return s.Phase == core.StepSucceeded || s.Phase == core.StepSkipped && !s.Upstream
}

// downstream marks what needs a marked step.
func (d *definition) downstream(whole, partly []bool) {
	var next []int32
	for def := range d.steps {
		if whole[def] || partly[def] {
			next = append(next, def)
		}
	}
	for len(next) > 0 {
		p := &d.plans[next[0]]
		for _, dependent := range slices.Concat(p.dependents, p.ends) {
			if !whole[dependent] {
				whole[dependent] = true
				next = append(next, dependent)
			}
		}
		next = next[1:]
	}
}
