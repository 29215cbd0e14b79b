package live

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// maxItems is how many open items of a forEach are drawn; the others are counted.
const maxItems = 6

// leastForETA is how many items must have ended before the end of a forEach is estimated.
const leastForETA = 3

// eta estimates how long a forEach goes on, from how fast its items have ended so far. Zero if nobody can tell.
func eta(s *api.Step, items []*api.Step, now api.Time) time.Duration {
	ended, all := 0, max(s.Items, len(items))
	for _, it := range items {
		if it.Phase.Closed() && !it.Kept {
			ended++
		}
		if it.Kept {
			all--
		}
	}
	if s.Phase.Closed() || ended < leastForETA || ended >= all {
		return 0
	}
	return time.Duration(float64(now.Sub(s.ScheduledAt)) / float64(ended) * float64(all-ended))
}

// groupStatus counts the items of a forEach, and estimates its end.
func groupStatus(s *api.Step, items []*api.Step, now api.Time) screen.Line {
	var ok, bad, stopped, running, backing, waiting int
	for _, it := range items {
		switch {
		case it.Phase == api.StepSucceeded || it.Phase == api.StepSkipped:
			ok++
		case it.Phase == api.StepCancelled && it.Reason == cancelled:
			stopped++
		case it.Phase.Closed():
			bad++
		case it.Phase == api.StepRunning:
			running++
		case it.Phase == api.StepBackingOff:
			backing++
		default:
			waiting++
		}
	}
	line := screen.Line{}
	if s.Phase.Closed() && s.Phase != api.StepSucceeded {
		_, style := mark(s)
		line = line.Add(style, words(string(s.Phase))).Add(screen.Plain, "  ")
	}
	line = line.Add(screen.Plain, fmt.Sprintf("%d of %d done", ok, max(s.Items, len(items))))
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
	if left := eta(s, items, now); left > 0 {
		line = line.Add(screen.Dim, "  about "+screen.For(left)+" left")
	}
	return line
}

// items draws the open items of a forEach, and those that failed.
func (d *drawing) items(r *api.Run, items []*api.Step, name, depth int) {
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

// arranged returns a run's steps: those that stand by themselves, and the items below each group. Items whose results
// were kept from an earlier run were there before the others.
func arranged(run *api.Run) (alone []*api.Step, items map[string][]*api.Step) {
	items = map[string][]*api.Step{}
	mixed := map[string]bool{}
	for _, s := range run.Steps {
		switch {
		case s.Superseded:
		case s.Group != "":
			items[s.Group], mixed[s.Group] = append(items[s.Group], s), mixed[s.Group] || s.Kept
		default:
			alone = append(alone, s)
		}
	}
	for group, is := range mixed {
		if is {
			slices.SortFunc(items[group], func(a, b *api.Step) int { return cmp.Compare(*a.Item, *b.Item) })
		}
	}
	return alone, items
}

// is reports whether a step is of a kind that is not a task's.
func is(s *api.Step, kind string) bool { return s.Type == "" && s.Kind == kind }
