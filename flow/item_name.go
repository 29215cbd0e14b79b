package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/tree"
)

const (
	maxItemName = 80      // characters of a name
	mostNamed   = 100_000 // items of a step that have names
)

// itemName compiles the name of a step's items.
func (b *builder) itemName(p *plan, s *Step) {
	switch {
	case s.ItemName.IsZero():
	case !hasList(s):
		hint := "write it where the list is"
		if s.Each != "" {
			hint = "the items of the loop " + s.Each + " have the names that are written there"
		}
		b.stepFail(s.pos, hint, "itemName names the items of forEach or matrix, and the step has neither")
	default:
		p.itemName = b.compiler.Template(tree.NodeOf(s.ItemName), b.flowVars(p)|varsItem, true)
	}
}

// itemNames returns the names of a group's items, in their order, or nil if it is not known.
func (d *definition) itemNames(r *core.Run, s *core.Step) []string {
	def, known := d.ordinal(s)
	if !known || d.plans[def].item < 0 || s.Group != core.NoStep {
		return nil
	}
	dec := newDecider(d)
	dec.register(r)
	p, loop := &d.plans[def], int32(-1)
	switch {
	case p.isLoop:
		loop = def
	case p.loop >= 0:
		p, loop = &d.plans[p.loop], p.loop
	}
	var values []any
	if loop >= 0 {
		for _, item := range dec.loopOf(loop).items {
			values = append(values, item.value)
		}
	} else {
		g := dec.groupOf(def)
		if err := g.load(p, &scope{decider: dec, run: r, now: s.ScheduledAt}); err != nil {
			return nil
		}
		values = g.list
	}
	names := make([]string, min(len(values), mostNamed))
	for i := range names {
		sc := &scope{decider: dec, run: r, now: s.ScheduledAt, item: values[i], index: i, around: loop + 1}
		names[i] = p.nameOf(sc)
	}
	return names
}

// titleOf returns how messages call a step: step "test[5]" (mac, 3).
func (d *definition) titleOf(r *core.Run, s *core.Step) string {
	return fmt.Sprintf("step %q%s", s.Key(), d.inParentheses(r, s))
}

// inParentheses returns the name of an item, to follow the step's key, or "" if the step is not an item.
func (d *definition) inParentheses(r *core.Run, s *core.Step) string {
	if s.Group == core.NoStep || s.Item < 0 {
		return ""
	}
	if names := d.itemNames(r, &r.Steps[s.Group]); int(s.Item) < len(names) && names[s.Item] != "" {
		return " (" + names[s.Item] + ")"
	}
	return ""
}

// nameOf returns the name of the item that a scope has.
func (p *plan) nameOf(sc *scope) string {
	name := ""
	if p.itemName != nil {
		name, _ = p.itemName.Text(sc) // an item without a value for its name gets that of its text
	}
	if name == "" {
		name = textOfItem(sc.item, p.axes)
	}
	name = strings.Join(strings.Fields(name), " ")
	if runes := []rune(name); len(runes) > maxItemName {
		name = string(runes[:maxItemName-1]) + "…"
	}
	return name
}

// textOfItem returns an item as a text: of a mapping its values, those of axes first.
func textOfItem(item any, axes []string) string {
	switch v := item.(type) {
	case string:
		return v
	case map[string]any:
		keys := slices.DeleteFunc(slices.Clone(axes), func(key string) bool { _, there := v[key]; return !there })
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
		parts := make([]string, len(keys))
		for i, key := range keys {
			parts[i] = textOfItem(v[key], nil)
		}
		return strings.Join(parts, ", ")
	}
	text, err := json.Marshal(item)
	if err != nil {
		return ""
	}
	return string(text)
}

// Items returns the items of a step, for expressions; those that have not begun are pending.
func (s *scope) Items(def int32) []*expr.Step {
	p := &s.def.plans[def]
	if p.item < 0 || s.nodes[def].id == core.NoStep || int(s.nodes[def].id) >= len(s.run.Steps) {
		return nil
	}
	names := s.def.itemNames(s.run, &s.run.Steps[s.nodes[def].id])
	out := make([]*expr.Step, len(names))
	for i := range s.run.Steps {
		step := &s.run.Steps[i]
		of, known := s.def.ordinal(step)
		if !known || of != p.item || step.Item < 0 || step.Dropped {
			continue
		}
		for len(out) <= int(step.Item) {
			out = append(out, nil)
		}
		out[step.Item] = s.valueOf(step)
	}
	for i := range out {
		if out[i] == nil {
			out[i] = &expr.Step{Phase: core.StepPending.String()}
		}
		if out[i].Index = i; i < len(names) {
			out[i].Name = names[i]
		}
	}
	return out
}
