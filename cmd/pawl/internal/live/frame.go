// Package live draws runs as they are at one instant: a tree of steps with attempts, countdowns and bars. It is a pure
// function of the runs' state, the instant and the size of the screen.
package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
)

// Step is what a definition says about a step that may not have begun yet.
type Step struct {
	Name  string
	Needs []string
}

// Run is one run to draw.
type Run struct {
	*trail.Trail
	Steps []Step // of the definition, in its order, without hooks
	Words *Words // nil: Pawl's own say it all
}

// Words are what the system whose document a run was made of calls a run, its steps and what happens.
type Words struct {
	System  string
	Status  string // of the run
	Message string // why it ended
	Step    func(s *core.Step) string
	Retries func(s *core.Step) int    // nil: it does not count them
	Event   func(e core.Event) string // nil: it has no names for events
}

// View is what there is to draw.
type View struct {
	Runs     []*Run              // those followed, the oldest first
	Children map[core.RunID]*Run // child runs of theirs that are known
	Stalled  string              // why the engine takes no work; "": it does
	Others   int                 // open runs in the same database that are carried along and not shown
	Question screen.Line         // what the person is asked
	Note     string              // more to say
}

// class says what may be left out when the screen is too small, from the first on.
type class uint8

const (
	done    class = iota // closed, and well
	coming               // has not begun
	item                 // of a forEach: its group counts them
	detail               // a second line of an open step
	active               // open
	problem              // closed, and not well
	head                 // of a run
	note                 // what was left out
)

// row is a line, and what it is.
type row struct {
	class class
	line  screen.Line
}

// Frame draws the view, at most width cells wide and height lines high; height 0 is unbounded.
func Frame(v View, now core.Time, width, height int) []screen.Line {
	var foot []screen.Line
	if v.Stalled != "" {
		foot = append(foot, screen.Line{}.Add(screen.Warn, "! stalled: "+screen.Clean(v.Stalled)),
			screen.Line{}.Add(screen.Warn, "  nothing is lost; it goes on by itself when there is room"))
	}
	if v.Others > 0 {
		foot = append(foot, screen.Line{}.Add(screen.Dim, fmt.Sprintf("  %s in this database %s along (pawl run list)",
			plural(v.Others, "other open run"), verb(v.Others, "goes", "go"))))
	}
	if v.Note != "" {
		foot = append(foot, screen.Line{}.Add(screen.Dim, "  "+v.Note))
	}
	if len(v.Question) > 0 {
		foot = append(foot, v.Question)
	}
	d := drawing{view: v, now: now, width: max(width, 20)}
	for i, r := range v.Runs {
		if i > 0 {
			d.add(head, nil)
		}
		d.run(r, 0)
	}
	lines := fit(d.rows, max(height-len(foot), 1), height > 0)
	lines = append(lines, foot...)
	for i := range lines {
		lines[i] = lines[i].Cut(d.width)
	}
	return lines
}

// drawing collects rows.
type drawing struct {
	view    View
	now     core.Time
	width   int
	rows    []row
	inItems bool // what is drawn are items
}

func (d *drawing) add(c class, line screen.Line) {
	if d.inItems && c != head {
		c = item
	}
	d.rows = append(d.rows, row{c, line})
}

// fit leaves rows out, class by class, until the others fit; where one is left out stands how many.
func fit(rows []row, height int, bounded bool) []screen.Line {
	for out := class(0); bounded && len(rows) > height && out < head; out++ {
		rows = leaveOut(rows, out, len(rows)-height)
	}
	lines := make([]screen.Line, 0, len(rows))
	for _, r := range rows {
		lines = append(lines, r.line)
	}
	if bounded && len(lines) > height {
		lines = lines[:height]
	}
	return lines
}

// words of what was left out.
var leftOut = [...]string{
	done: "✓ %d done", coming: "· %d to come", item: "… %d more lines of items", active: "● %d more open", problem: "✗ %d more ended badly",
}

// leaveOut takes rows of a class away, the first ones first, about excess of them, and says in each run how many went.
func leaveOut(rows []row, out class, excess int) []row {
	kept := make([]row, 0, len(rows))
	var gone []row // of the run at hand
	at := 0        // where the first of them stood
	flush := func() {
		switch {
		case len(gone) == 0 || out == detail:
		case len(gone) == 1: // a line that says so would take as much room
			kept = slices.Insert(kept, at, gone[0])
		default:
			kept = slices.Insert(kept, at, row{note, screen.Line{}.Add(screen.Dim, "  "+fmt.Sprintf(leftOut[out], len(gone)))})
		}
		gone = nil
	}
	taken := 0
	for _, r := range rows {
		if r.class == head {
			flush()
		}
		if r.class != out || (taken > excess && out != detail) {
			kept = append(kept, r)
			continue
		}
		if len(gone) == 0 {
			at = len(kept)
		}
		gone, taken = append(gone, r), taken+1
	}
	flush()
	return kept
}

// run draws one run, and below it its steps.
func (d *drawing) run(r *Run, depth int) {
	if depth == 0 {
		d.header(r)
	}
	name := nameWidth(r, d.width, depth)
	steps, items := arranged(r.Run)
	seen := map[string]bool{}
	for _, s := range steps {
		seen[s.Spec.Name] = true
	}
	for _, s := range inOrder(r, steps) {
		if s.step != nil {
			d.step(r, s.step, items[s.step.ID], name, depth)
		} else {
			d.toCome(r, s.plan, seen, name, depth)
		}
	}
}

// toCome draws a step that has not begun, of a run that will come to it.
func (d *drawing) toCome(r *Run, plan Step, begun map[string]bool, name, depth int) {
	if begun[plan.Name] || r.Run.Phase.Closed() || r.Run.Closing != nil {
		return
	}
	text := "· " + screen.Pad(screen.Cut(screen.Clean(plan.Name), name), name) + "  " + waitsFor(r, plan, begun)
	d.add(coming, indent(depth).Add(screen.Dim, text))
}

// slot is a place in the tree: a step that has begun, or one that is to come.
type slot struct {
	step *core.Step
	plan Step
}

// inOrder puts the steps into the order of the definition; what it does not name, such as hooks, follows.
func inOrder(r *Run, steps []*core.Step) []slot {
	byName := make(map[string]*core.Step, len(steps))
	for _, s := range steps {
		byName[s.Spec.Name] = s
	}
	var out []slot
	placed := make(map[*core.Step]bool, len(steps))
	for _, plan := range r.Steps {
		s := byName[plan.Name]
		out = append(out, slot{s, plan})
		placed[s] = s != nil
	}
	for _, s := range steps {
		if !placed[s] {
			out = append(out, slot{step: s})
		}
	}
	return out
}

// waitsFor names the steps that one which has not begun still needs.
func waitsFor(r *Run, p Step, begun map[string]bool) string {
	var open []string
	for _, need := range p.Needs {
		if s, ok := r.Run.Lookup(need); !begun[need] || !ok || !s.Phase.Closed() {
			open = append(open, screen.Clean(need))
		}
	}
	if len(open) > 3 {
		open = append(open[:2], fmt.Sprintf("%d more", len(open)-2))
	}
	if len(open) == 0 {
		return ""
	}
	return "after " + strings.Join(open, ", ")
}

// header is the run's own line, and its deadline's.
func (d *drawing) header(r *Run) {
	run := r.Run
	line := screen.Line{}.Add(screen.Bold, screen.Clean(run.Workflow)).Add(screen.Plain, " ").Add(screen.Dim, Short(run.ID)).Add(screen.Plain, "  ")
	line = line.Add(runStyle(run), runPhase(run))
	switch {
	case run.Phase == core.RunPending:
		line = line.Add(screen.Plain, " starts in "+screen.Left(run.StartAt.Sub(d.now)))
	case run.Phase.Closed():
		line = line.Add(screen.Plain, " in "+screen.For(run.EndedAt.Sub(run.CreatedAt)))
	default:
		line = line.Add(screen.Plain, " "+screen.Clock(d.now.Sub(run.CreatedAt)))
	}
	if total := len(r.Steps); total > 0 {
		line = line.Add(screen.Dim, fmt.Sprintf("  %d of %s done", closedSteps(r), plural(total, "step")))
	}
	if run.Chain.Attempt > 1 {
		line = line.Add(screen.Warn, fmt.Sprintf("  run %d of its chain", run.Chain.Attempt))
	}
	d.add(head, line)
	if bar := d.bar(r.OfRun(), 2); bar != nil {
		d.add(head, bar)
	}
}

func closedSteps(r *Run) int {
	n := 0
	for _, p := range r.Steps {
		if s, ok := r.Run.Lookup(p.Name); ok && s.Phase.Closed() {
			n++
		}
	}
	return n
}

// runPhase is the run's phase in words, with what it is on its way to.
func runPhase(r *core.Run) string {
	switch {
	case r.Closing != nil && r.Closing.Phase == core.RunCancelled, r.CancelAsked && !r.Phase.Closed():
		return "stopping"
	case r.Closing != nil:
		return "ending " + words(r.Closing.Phase)
	default:
		return words(r.Phase)
	}
}

func runStyle(r *core.Run) screen.Style {
	switch r.Phase {
	case core.RunSucceeded, core.RunContinued:
		return screen.Good
	case core.RunFailed, core.RunTimedOut:
		return screen.Bad
	case core.RunCancelled, core.RunTerminated, core.RunPaused:
		return screen.Warn
	default:
		return screen.Active
	}
}

// Short is a run's id as people see it: its beginning, the millisecond of its creation, and enough of the rest to tell it
// from others of that millisecond, such as its own child.
func Short(id core.RunID) string { return id.String()[:18] }

// words writes a phase for people.
func words(p fmt.Stringer) string { return strings.ReplaceAll(p.String(), "_", " ") }

func indent(depth int) screen.Line {
	return screen.Line{}.Add(screen.Plain, strings.Repeat("  ", depth+1))
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// nameWidth is the width of the column of names.
func nameWidth(r *Run, width, depth int) int {
	most := 0
	for _, p := range r.Steps {
		most = max(most, screen.Width(p.Name))
	}
	for i := range r.Run.Steps {
		if s := &r.Run.Steps[i]; s.Group == core.NoStep {
			most = max(most, screen.Width(s.Spec.Name))
		}
	}
	return min(most, max(width/3, 12)-2*depth)
}
