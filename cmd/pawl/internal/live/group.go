package live

import (
	"fmt"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/core"
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
