package live

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// maxItems is how many open items of a forEach are drawn; the others are counted.
const maxItems = 6

// groupStatus counts the items of a forEach.
func groupStatus(r *Run, s *core.Step, items []*core.Step) screen.Line {
	var ok, bad, stopped, running, backing, waiting int
	for _, it := range items {
		switch {
		case it.Phase == core.StepSucceeded || it.Phase == core.StepSkipped:
			ok++
		case it.Phase == core.StepCancelled && it.Reason == policy.ReasonCancelled:
			stopped++
		case it.Phase.Closed():
			bad++
		case it.Phase == core.StepRunning:
			running++
		case it.Phase == core.StepBackingOff:
			backing++
		default:
			waiting++
		}
	}
	line := screen.Line{}
	if s.Phase.Closed() && s.Phase != core.StepSucceeded {
		_, style := mark(s)
		line = line.Add(style, words(s.Phase)).Add(screen.Plain, "  ")
	}
	line = line.Add(screen.Plain, fmt.Sprintf("%d of %d done", ok, max(r.Items(s), len(items))))
	count := func(style screen.Style, n int, what string) {
		if n > 0 {
			line = line.Add(style, fmt.Sprintf("  %d %s", n, what))
		}
	}
	count(screen.Bad, bad, "failed")
	count(screen.Warn, stopped, "cancelled")
	count(screen.Active, running, "running")
	count(screen.Warn, backing, "backing off")
	count(screen.Dim, waiting, "waiting")
	if s.Phase.Closed() {
		line = line.Add(screen.Dim, "  "+screen.For(s.EndedAt.Sub(s.ScheduledAt)))
	}
	return line
}

// items draws the open items of a forEach, and those that failed.
func (d *drawing) items(r *Run, items []*core.Step, name, depth int) {
	shown, open, bad := 0, 0, 0
	before := d.inItems
	d.inItems = before || len(items) > 0
	defer func() { d.inItems = before }()
	for _, it := range items {
		switch classOf(it) {
		case active:
			if open++; open <= maxItems {
				shown++
				d.step(r, it, nil, name, depth)
			}
		case problem:
			if bad++; bad <= maxItems/2 {
				d.step(r, it, nil, name, depth)
			}
		default:
		}
	}
	if more := open - shown; more > 0 {
		d.add(coming, indent(depth).Add(screen.Dim, fmt.Sprintf("… %d more open", more)))
	}
}

// arranged returns a run's steps: those that stand by themselves, and the items below each group. An item whose result was kept
// from an earlier run was there before its group; it is drawn there as well.
func arranged(run *core.Run) (alone []*core.Step, items map[core.StepID][]*core.Step) {
	items = map[core.StepID][]*core.Step{}
	groups := map[string]core.StepID{}
	var kept []*core.Step
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Dropped:
		case s.Group != core.NoStep:
			items[s.Group] = append(items[s.Group], s)
		case s.Kept && s.Item >= 0:
			kept = append(kept, s)
		default:
			alone = append(alone, s)
			if s.Spec.Kind == core.KindGroup {
				groups[s.Spec.Name] = s.ID
			}
		}
	}
	mixed := map[core.StepID]bool{}
	for _, s := range kept {
		id, begun := groups[s.Spec.Name]
		if !begun {
			alone = append(alone, s)
			continue
		}
		below := *s
		below.Group = id
		items[id], mixed[id] = append(items[id], &below), true
	}
	for id := range mixed {
		slices.SortFunc(items[id], func(a, b *core.Step) int { return cmp.Compare(a.Item, b.Item) })
	}
	return alone, items
}
