package trail

import "github.com/pawl-dev/pawl/internal/core"

// speaker makes sentences about a run from its state alone. What is known besides has slots in them; see [Told].
type speaker struct {
	Run *core.Run // only to be read
	// Shared means that the run belongs to one of several nodes, each of which counts limits for its own runs.
	Shared bool

	itemName func(core.StepID) string
	items    map[core.StepID]int
	counts   map[core.StepID]itemCount // items by group; nil: to be counted
}

// itemsOf returns how many items a forEach has, including those that have not begun; 0 if that is unknown.
func (t *speaker) itemsOf(s *core.Step) int {
	if s.Spec.Kind != core.KindGroup {
		return 0
	}
	n, known := t.items[s.ID]
	if known {
		return n
	}
	if def := t.Run.Attached(); def != nil && def.CountItems != nil {
		n, _ = def.CountItems(t.Run, s)
	}
	if t.items == nil {
		t.items = map[core.StepID]int{}
	}
	t.items[s.ID] = n // the list does not change after the step began
	return n
}

// itemCount counts the items of a group.
type itemCount struct {
	all, ended, failed int
	first              core.StepID // the first item that failed
	why                string      // its failure
	alike              bool        // all items that failed have that one
}

// fails counts an item that failed.
func (c *itemCount) fails(item core.StepID, why string) {
	if c.failed == 0 {
		c.first, c.why, c.alike = item, why, true
	}
	c.failed++
	c.alike = c.alike && why == c.why
}

// counted counts the items of all groups.
func (t *speaker) counted() map[core.StepID]itemCount {
	if t.counts != nil {
		return t.counts
	}
	t.counts = map[core.StepID]itemCount{}
	for i := range t.Run.Steps {
		s := &t.Run.Steps[i]
		group := core.GroupOf(t.Run, s)
		if group == core.NoStep || s.Dropped {
			continue
		}
		c := t.counts[group]
		c.all++
		if s.Phase.Closed() {
			c.ended++
		}
		if failedBadly(s) {
			c.fails(s.ID, sentence(s.Failure))
		}
		t.counts[group] = c
	}
	return t.counts
}
