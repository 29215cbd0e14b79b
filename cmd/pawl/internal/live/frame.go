// Package live draws runs as they are at one instant: a tree of steps with attempts, countdowns and bars. It is a pure
// function of the runs, the instant and the size of the screen.
package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// View is the state to draw.
type View struct {
	Runs     []*api.Run          // the followed runs, the oldest first
	Children map[string]*api.Run // their known child runs, by run id
	Stalled  string              // why the engine takes no work; "": it does
	Others   Others              // open runs in the same database that rest meanwhile
	Printed  map[StepOf]string   // the last line that each running step printed
	Question screen.Line         // the question that the person is asked
	Note     string              // more to say
}

// StepOf names a step, or an item of one, of a run.
type StepOf struct{ Run, Step string }

// class is the class of a line: when the screen is too small, the first classes are left out first.
type class uint8

const (
	done    class = iota // closed, and well
	coming               // has not begun
	item                 // an item of a forEach: its group counts them
	detail               // a second line of an open step
	active               // open
	problem              // closed, and not well
	head                 // a line about the run itself
	note                 // the number of lines that were left out
)

// row is a line, and its class.
type row struct {
	class class
	line  screen.Line
}

// Others is what else is open in the database, which nobody carries on.
type Others struct {
	Runs      int
	Schedules []string // their names
}

// Empty reports whether there is nothing else.
func (o Others) Empty() bool { return o.Runs == 0 && len(o.Schedules) == 0 }

// mostNamed is how many schedules are named.
const mostNamed = 3

// String formats what nobody carries on, and what carries it on.
func (o Others) String() string {
	var parts []string
	if o.Runs > 0 {
		parts = append(parts, fmt.Sprintf("%s in this database %s not being executed (pawl resume)",
			plural(o.Runs, "other open run"), verb(o.Runs, "is", "are")))
	}
	switch n := len(o.Schedules); {
	case n == 1:
		name := screen.Clean(o.Schedules[0])
		parts = append(parts, fmt.Sprintf("schedule %s is not carried, and starts nothing (pawl resume %[1]s, or a "+
			"server)", name))
	case n > 1:
		names := screen.Clean(strings.Join(o.Schedules[:min(n, mostNamed)], ", "))
		if n > mostNamed {
			names += fmt.Sprintf(" and %d more", n-mostNamed)
		}
		parts = append(parts, fmt.Sprintf("schedules %s are not carried, and start nothing (pawl resume NAME, or a "+
			"server)", names))
	}
	return strings.Join(parts, "; ")
}

// Frame draws the view, at most width cells wide and height lines high; height 0 is unbounded.
func Frame(v View, now api.Time, width, height int) []screen.Line {
	var foot []screen.Line
	if v.Stalled != "" {
		foot = append(foot, screen.Line{}.Add(screen.Warn, "! stalled: "+screen.Clean(v.Stalled)),
			screen.Line{}.Add(screen.Warn, "  what was recorded is kept, attempts that end meanwhile may run again; "+
				"it goes on when there is room"))
	}
	if !v.Others.Empty() {
		foot = append(foot, screen.Line{}.Add(screen.Dim, "  "+v.Others.String()))
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
	now     api.Time
	width   int
	rows    []row
	inItems bool // the drawn steps are items
	full    bool // values are drawn as long as they are
}

func (d *drawing) add(c class, line screen.Line) {
	if d.inItems && c != head {
		c = item
	}
	d.rows = append(d.rows, row{c, line})
}

// fit leaves rows out, class by class, until the others fit, and shows in their place how many there were.
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

// words for what was left out.
var leftOut = [...]string{
	done: "✓ %d done", coming: "· %d to come", item: "… %d more lines of items", active: "● %d more open",
	problem: "✗ %d more ended badly",
}

// leaveOut removes about excess rows of a class, the first ones first, and notes in each run how many were removed. Of
// the steps to come the last ones go first: the next one stays in sight.
func leaveOut(rows []row, out class, excess int) []row {
	var of []int
	for i, r := range rows {
		if r.class == out {
			of = append(of, i)
		}
	}
	switch {
	case out == coming && len(of) > 0:
		of = of[max(1, len(of)-excess-1):]
	case out != detail:
		of = of[:min(len(of), excess+1)]
	}
	kept := make([]row, 0, len(rows))
	var gone []row // the rows left out of the current run
	at := 0        // the place of the first of them
	flush := func() {
		switch {
		case len(gone) == 0 || out == detail:
		case len(gone) == 1: // a line that says so would take as much room
			kept = slices.Insert(kept, at, gone[0])
		default:
			kept = slices.Insert(kept, at, row{
				note,
				screen.Line{}.Add(screen.Dim, "  "+fmt.Sprintf(leftOut[out], len(gone))),
			})
		}
		gone = nil
	}
	for i, r := range rows {
		if r.class == head {
			flush()
		}
		if _, goes := slices.BinarySearch(of, i); !goes {
			kept = append(kept, r)
			continue
		}
		if len(gone) == 0 {
			at = len(kept)
		}
		gone = append(gone, r)
	}
	flush()
	return kept
}

// run draws one run, and below it its steps.
func (d *drawing) run(r *api.Run, depth int) {
	if depth == 0 {
		d.header(r)
	}
	name := nameWidth(r, d.width, depth)
	steps, items := arranged(r)
	begun := byName(steps)
	for _, s := range inOrder(r, steps) {
		if s.step != nil {
			d.step(r, s.step, items[s.step.Step], name, depth)
		} else {
			d.toCome(r, s.plan, begun, name, depth)
		}
	}
}

// byName indexes the steps that are not items of another step.
func byName(steps []*api.Step) map[string]*api.Step {
	out := make(map[string]*api.Step, len(steps))
	for _, s := range steps {
		out[s.Name] = s
	}
	return out
}

// toCome draws a step that has not begun, of a run that has not reached it yet.
func (d *drawing) toCome(r *api.Run, plan api.PlannedStep, begun map[string]*api.Step, name, depth int) {
	if begun[plan.Name] != nil || r.Phase.Closed() || r.Closing != "" {
		return
	}
	text := "· " + screen.Pad(screen.Cut(screen.Clean(plan.Name), name), name) + "  " + waitsFor(plan, begun)
	d.add(coming, indent(depth).Add(screen.Dim, text))
}

// slot is a place in the tree: a step that has begun, or one that is to come.
type slot struct {
	step *api.Step
	plan api.PlannedStep
}

// inOrder puts the steps into the order of the definition; steps that it does not name, such as hooks, follow.
func inOrder(r *api.Run, steps []*api.Step) []slot {
	begun := byName(steps)
	var out []slot
	placed := make(map[*api.Step]bool, len(steps))
	for _, plan := range r.Plan {
		s := begun[plan.Name]
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
func waitsFor(p api.PlannedStep, begun map[string]*api.Step) string {
	var open []string
	for _, need := range p.Needs {
		if s := begun[need]; s == nil || !s.Phase.Closed() {
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

// header draws the run's own line, and its deadline's.
func (d *drawing) header(r *api.Run) {
	line := screen.Line{}.Add(screen.Bold, screen.Clean(r.Workflow)).Add(screen.Plain, " ").
		Add(screen.Dim, Short(r.Run)).Add(screen.Plain, "  ")
	line = line.Add(runStyle(r), runPhase(r))
	switch {
	case r.Held != nil:
		line = line.Add(screen.Warn, " is "+d.held(r.Held))
	case r.QueuedAt != 0:
		line = line.Add(screen.Plain, " waits for its queue")
	case r.Phase == api.RunPending:
		line = line.Add(screen.Plain, " starts in "+screen.Left(r.StartAt.Sub(d.now)))
	case r.Phase.Closed():
		line = line.Add(screen.Plain, " in "+screen.For(r.EndedAt.Sub(r.CreatedAt)))
	default:
		line = line.Add(screen.Plain, " "+screen.Clock(d.now.Sub(r.CreatedAt)))
	}
	if total := len(r.Plan); total > 0 {
		line = line.Add(screen.Dim, "  "+progress(r, total))
	}
	if r.Attempt > 1 {
		line = line.Add(screen.Warn, fmt.Sprintf("  run %d of its chain", r.Attempt))
	}
	d.add(head, line)
	if r.Problem != "" && !r.Phase.Closed() {
		d.add(head, indent(0).Add(screen.Bad, "it cannot go on: "+screen.Clean(r.Problem)))
	}
	if r.Resting {
		d.add(head, indent(0).Add(screen.Warn, "nothing carries this run at present; go on with: "+goOn(r)))
	}
	if bar := d.runBar(r); bar != nil {
		d.add(head, bar)
	}
}

// goOn returns the command that carries on a run that rests.
func goOn(r *api.Run) string {
	if r.Phase == api.RunPaused {
		return "pawl run resume " + Short(r.Run) + " --follow"
	}
	return "pawl resume " + Short(r.Run)
}

// progress describes how many of the planned steps have ended, and how those ended that did not succeed.
func progress(r *api.Run, total int) string {
	planned := make(map[string]bool, len(r.Plan))
	for _, p := range r.Plan {
		planned[p.Name] = true
	}
	closed, ends := 0, map[api.StepPhase]int{}
	for _, s := range r.Steps {
		if s.Item == nil && !s.Superseded && s.Phase.Closed() && planned[s.Step] {
			closed++
			ends[s.Phase]++
		}
	}
	text := fmt.Sprintf("%d of %s ", closed, plural(total, "step"))
	if ends[api.StepSucceeded] == closed {
		return text + "done"
	}
	var parts []string
	for _, p := range []api.StepPhase{api.StepFailed, api.StepTimedOut, api.StepCancelled, api.StepSkipped} {
		if n := ends[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words(string(p))))
		}
	}
	return text + "ended: " + strings.Join(parts, ", ")
}

// runPhase returns the run's phase in words, and the end that it is heading for.
func runPhase(r *api.Run) string {
	switch {
	case r.CompensateUntil != 0:
		return "undoing what it did"
	case r.Closing != "" && stops(r):
		return "stopping"
	case r.Closing == api.RunCancelled, r.CancelAsked && !r.Phase.Closed():
		return "stopping"
	case r.Closing != "":
		return "ending " + words(string(r.Closing))
	default:
		return words(string(r.Phase))
	}
}

// stops reports whether work of the run was told to stop and has not ended yet. Its hooks wait for that.
func stops(r *api.Run) bool {
	return slices.ContainsFunc(r.Steps, func(s *api.Step) bool { return s.Stopping && !s.Superseded })
}

func runStyle(r *api.Run) screen.Style {
	switch r.Phase {
	case api.RunSucceeded, api.RunContinued:
		return screen.Good
	case api.RunFailed, api.RunTimedOut:
		return screen.Bad
	case api.RunCancelled, api.RunTerminated, api.RunPaused:
		return screen.Warn
	default:
		return screen.Active
	}
}

// words writes a phase for people.
func words(phase string) string { return strings.ReplaceAll(phase, "_", " ") }

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

// nameWidth returns the width of the column of names.
func nameWidth(r *api.Run, width, depth int) int {
	most := 0
	for _, p := range r.Plan {
		most = max(most, screen.Width(p.Name))
	}
	for _, s := range r.Steps {
		if s.Group == "" {
			most = max(most, screen.Width(s.Name))
		}
	}
	return min(most, max(width/3, 12)-2*depth)
}
