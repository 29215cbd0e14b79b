package live

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// step draws one step: a line; if it is open, the bar of its binding deadline and its last error; if it ended badly,
// the reason.
func (d *drawing) step(r *api.Run, s *api.Step, items []*api.Step, name, depth int) {
	glyph, style := mark(s)
	line := indent(depth).Add(style, glyph+" ").Add(nameStyle(s), label(s, name)).Add(screen.Plain, "  ")
	if is(s, api.KindGroup) {
		line = append(line, groupStatus(s, items, d.now)...)
	} else {
		line = append(line, d.status(s)...)
	}
	printed := d.printed(r, s)
	if printed != "" && d.inItems { // an item has one line
		line = line.Add(screen.Dim, "  "+printed)
	}
	d.add(classOf(s), line)
	if printed != "" && !d.inItems {
		d.add(detail, indent(depth+1).Add(screen.Dim, printed))
	}
	if why := screen.Clean(s.Why); why != "" && s.Phase.Closed() && classOf(s) == problem {
		d.add(problem, indent(depth+1).Add(style, why))
	}
	if !s.Phase.Closed() {
		if bar := d.stepBar(s, depth); bar != nil {
			d.add(detail, bar)
		}
		if _, why := d.said(s); why != "" {
			d.add(detail, indent(depth+1).Add(screen.Bad, why))
		}
	}
	d.items(r, items, name, depth+1)
	if child := d.view.Children[s.Child]; child != nil && depth < 4 && !s.Phase.Closed() {
		d.run(child, depth+1)
	}
}

// printed returns the last line that a running step printed, with control characters made visible.
func (d *drawing) printed(r *api.Run, s *api.Step) string {
	line := d.view.Printed[StepOf{r.Run, s.Step}]
	if line == "" || s.Phase != api.StepRunning {
		return ""
	}
	return "| " + screen.Clean(escapes.ReplaceAllString(line, ""))
}

// escapes are the sequences with which programs colour what they print and move the cursor.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)

// label returns a step's name, padded to its column; an item is below its group and needs only its index.
func label(s *api.Step, name int) string {
	if s.Group != "" && s.Item != nil {
		text := fmt.Sprintf("[%d]", *s.Item)
		if s.ItemName == "" {
			return screen.Pad(text, 6)
		}
		text += " " + screen.Clean(s.ItemName)
		return screen.Pad(screen.Cut(text, max(name, 24)), max(6, min(name-2, 24))) // an item stands further right
	}
	return screen.Pad(screen.Cut(screen.Clean(s.Step), name), name)
}

// classOf reports how a step's line is left out.
func classOf(s *api.Step) class {
	switch {
	case !s.Phase.Closed():
		return active
	case s.Phase == api.StepSucceeded || s.Phase == api.StepSkipped || s.Reason == cancelled:
		return done
	default:
		return problem
	}
}

func mark(s *api.Step) (string, screen.Style) {
	switch s.Phase {
	case api.StepSucceeded:
		return "✓", screen.Good
	case api.StepFailed, api.StepTimedOut:
		return "✗", screen.Bad
	case api.StepCancelled:
		return "⊘", screen.Warn
	case api.StepSkipped:
		return "–", screen.Dim
	case api.StepBackingOff:
		return "↻", screen.Warn
	case api.StepScheduled:
		return "○", screen.Active
	case api.StepSuspended:
		if is(s, api.KindGroup) || is(s, api.KindFlow) {
			return "▸", screen.Active
		}
		return "◷", screen.Active
	default:
		return "●", screen.Active
	}
}

func nameStyle(s *api.Step) screen.Style {
	if classOf(s) == done {
		return screen.Plain
	}
	return screen.Bold
}

// status formats what an open step does, or how it ended.
func (d *drawing) status(s *api.Step) screen.Line {
	if s.Phase.Closed() {
		return d.ended(s)
	}
	what, _ := d.said(s)
	return screen.Line{}.Add(statusStyle(s), what).Add(screen.Dim, lost(s))
}

// said returns what an open step does and, separately, why, since a line has room for one of them.
func (d *drawing) said(s *api.Step) (what, why string) {
	what, why, _ = strings.Cut(screen.Clean(s.Says.Reads(d.now, screen.Left)), "; ")
	return what, why
}

func statusStyle(s *api.Step) screen.Style {
	if s.Phase == api.StepBackingOff || s.Held != nil {
		return screen.Warn
	}
	return screen.Plain
}

func lost(s *api.Step) string {
	if s.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("  %s lost", plural(s.Lost, "attempt"))
}

// ended formats how a closed step ended: the phase unless it is plain success, attempts, duration, and if its work
// still runs, since when it has been asked to stop.
func (d *drawing) ended(s *api.Step) screen.Line {
	var line screen.Line
	n := len(s.Attempts)
	took := screen.For(s.EndedAt.Sub(s.ScheduledAt))
	switch {
	case s.Phase == api.StepSkipped:
		return line.Add(screen.Dim, "skipped: "+screen.Clean(s.Why))
	case s.Kept:
		return line.Add(screen.Dim, Kept)
	case s.Phase != api.StepSucceeded:
		_, style := mark(s)
		line = line.Add(style, words(string(s.Phase))).Add(screen.Plain, "  ")
	}
	line = line.Add(screen.Plain, took)
	if n > 1 || (n == 1 && s.Phase != api.StepSucceeded) {
		line = line.Add(screen.Dim, "  "+Attempts(n, LostOf(s)))
	}
	if s.Stopping && n > 0 {
		line = line.Add(screen.Warn, "  asked to stop "+screen.For(d.now.Sub(s.Attempts[n-1].EndedAt))+" ago")
	}
	return line
}

// Attempts formats a number of attempts, with those that were lost with their worker: 3 attempts (1 lost).
func Attempts(n, lost int) string {
	text := plural(n, "attempt")
	if lost > 0 {
		text += fmt.Sprintf(" (%d lost)", lost)
	}
	return text
}

// LostOf returns how many attempts of a step were lost with their worker.
func LostOf(s *api.Step) int {
	lost := 0
	for i := range s.Attempts {
		if s.Attempts[i].Outcome == policy.KindLost.String() {
			lost++
		}
	}
	return lost
}

// barWidth is the width of a bar.
const barWidth = 16

// stepBar returns the line of the limit or sleep that ends an open step first; nil if there is none, or if it is a
// limit of the run, which has its own line.
func (d *drawing) stepBar(s *api.Step, depth int) screen.Line {
	for i := range s.Ends {
		if e := &s.Ends[i]; e.Ends != "run" && (e.At != 0 || e.Left != 0) {
			return d.bar(e, 2*depth+4)
		}
	}
	return nil
}

// runBar returns the line of the run's own limit that ends it first; nil if it has none.
func (d *drawing) runBar(r *api.Run) screen.Line {
	for i := range r.Ends {
		if e := &r.Ends[i]; e.Ends == "run" {
			return d.bar(e, 2)
		}
	}
	return nil
}

// bar formats the line of an end: how much of its clock is used up, the time left, what it is and where it was
// configured.
func (d *drawing) bar(e *api.End, left int) screen.Line {
	rest := e.At.Sub(d.now)
	style := screen.Active
	line := screen.Line{}.Add(screen.Plain, strings.Repeat(" ", left))
	whole := e.At.Sub(e.From)
	if e.At == 0 {
		rest, whole, style = e.Left.Std(), e.After.Std(), screen.Dim
	}
	if (e.From != 0 || e.At == 0) && whole > 0 {
		if rest < whole/5 {
			style = screen.Warn
		}
		line = line.Add(screen.Dim, "▕").Add(style, screen.Bar(whole-rest, whole, barWidth)).Add(screen.Dim, "▏")
		line = line.Add(screen.Plain, " "+screen.Pad(screen.Left(rest), 6)+" left")
		if rest <= whole { // else the deadline was moved, or its clock begins later
			line = line.Add(screen.Plain, " of "+screen.For(whole))
		}
		line = line.Add(screen.Dim, "  "+e.Limit)
	} else {
		line = line.Add(screen.Plain, screen.Left(rest)+" left").Add(screen.Dim, "  "+e.Text)
	}
	if e.At == 0 {
		line = line.Add(screen.Warn, "  its clock stands")
	}
	if e.Origin != "" {
		line = line.Add(screen.Dim, "  "+origin(e.Origin))
	}
	return line
}

// origin shortens the place of a setting to the file's name.
func origin(o string) string { return screen.Clean(path.Base(o)) }

// cancelled is the reason of a step that was stopped with its run.
var cancelled = policy.ReasonCancelled.String()
