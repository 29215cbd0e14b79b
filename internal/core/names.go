package core

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/naming"
)

// name returns the text of a small enumeration's value.
func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", uint8(v))
}

// parseName sets *v to the value whose text is s.
func parseName[T ~uint8](names []string, s string, v *T) error {
	for i, n := range names {
		if n == s {
			*v = T(i)
			return nil
		}
	}
	return fmt.Errorf("%q where one of %s is expected", s, strings.Join(names, ", "))
}

// GroupOf returns the group of a step; NoStep: it is no item. An item that is kept from an earlier run was there before
// its group.
func GroupOf(r *Run, s *Step) StepID {
	if s.Group != NoStep || s.Item < 0 || !s.Kept {
		return s.Group
	}
	if group, there := r.Lookup(s.Spec.Name); there && group.Spec.Kind == KindGroup {
		return group.ID
	}
	return NoStep
}

// StepNamed finds a step of a run by the name that people use: its key, or for an item the item's name, test[mac, 3]. A
// name that several items have identifies none of them.
func StepNamed(r *Run, name string) (*Step, bool) {
	if s, known := r.Lookup(name); known {
		return s, true
	}
	base, item, isItem := naming.Item(name)
	if !isItem || r.def == nil || r.def.ItemNames == nil {
		return nil, false
	}
	var found *Step
	names := map[StepID][]string{}
	for i := range r.Steps {
		s := &r.Steps[i]
		group := GroupOf(r, s)
		if s.Dropped || s.Spec.Name != base || group == NoStep {
			continue
		}
		if names[group] == nil {
			names[group] = r.def.ItemNames(r, &r.Steps[group])
		}
		if of := names[group]; int(s.Item) >= len(of) || of[s.Item] != item {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = s
	}
	return found, found != nil
}
