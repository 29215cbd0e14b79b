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

// step draws one step: a line, for an open one the bar of its binding deadline and its last error, for one that ended
// badly the reason.
func (d *drawing) step(r *api.Run, s *api.Step, items []*api.Step, name, depth int) {
	glyph, style := mark(s)
	line := indent(depth).Add(style, glyph+" ").Add(nameStyle(s), label(s, name)).Add(screen.Plain, "  ")
	if is(s, api.KindGroup) {
		line = append(line, groupStatus(s, items, d.now)...)
	} else {
		line = append(line, d.status(r, s)...)
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
		if cause := lastError(s); cause != "" {
			d.add(detail, indent(depth+1).Add(screen.Bad, cause))
		}
	}
	d.items(r, items, name, depth+1)
	if child := d.view.Children[s.Child]; child != nil && depth < 4 {
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

// label returns a step's name, filled up to its column; an item stands below its group and needs its index only.
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

// classOf says how a step's line is left out.
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

// status formats the state of a step, or how it ended.
func (d *drawing) status(r *api.Run, s *api.Step) screen.Line {
	if s.Phase.Closed() {
		return d.ended(s)
	}
	count := "attempt " + Count(s, max(s.Attempt, 1))
	paused := ""
	if r.PausedAt != 0 {
		paused = ", paused"
	}
	switch {
	case s.Phase == api.StepBackingOff && s.Stopping:
		return screen.Line{}.Add(screen.Warn, "waits until attempt "+fmt.Sprint(s.Attempt)+" has stopped")
	case s.Phase == api.StepBackingOff:
		next := "attempt " + Count(s, s.Attempt+1)
		return screen.Line{}.Add(screen.Warn, next+" in "+screen.Left(s.NextAt.Sub(d.now))+paused).
			Add(screen.Dim, "  backoff "+screen.For(s.Backoff.Std()))
	case s.Held != nil:
		return screen.Line{}.Add(screen.Warn, count+" is "+d.held(s.Held)+paused).
			Add(screen.Dim, "  "+screen.Clock(d.now.Sub(s.Held.Since)))
	case s.Phase == api.StepScheduled:
		return screen.Line{}.Add(screen.Plain,
			count+" waits for "+workerFor(s)+paused+"  "+screen.Clock(d.now.Sub(s.ReadyAt))).
			Add(screen.Dim, queueOf(s))
	case s.Phase == api.StepRunning:
		return screen.Line{}.Add(screen.Plain, count+"  "+screen.Clock(d.now.Sub(s.StartedAt))).Add(screen.Dim, lost(s))
	case is(s, api.KindSleep):
		return screen.Line{}.Add(screen.Plain, "sleeps, "+screen.Left(s.NextAt.Sub(d.now))+" left"+paused)
	case is(s, api.KindWait) && s.Update != "":
		return screen.Line{}.Add(screen.Plain, "waits for update "+screen.Clean(s.Update)).
			Add(screen.Dim, "  "+screen.Clock(d.now.Sub(s.ScheduledAt)))
	case is(s, api.KindWait):
		return screen.Line{}.Add(screen.Plain, "waits for event "+screen.Clean(s.Event)).
			Add(screen.Dim, "  "+screen.Clock(d.now.Sub(s.ScheduledAt)))
	case is(s, api.KindFlow) && s.StartedAt != 0:
		return screen.Line{}.Add(screen.Plain, "run "+Short(s.Child)).Add(screen.Dim, "  "+count)
	default:
		return screen.T(words(string(s.Phase)) + paused)
	}
}

// workerFor says which worker an attempt waits for, where that is not the one of every process.
func workerFor(s *api.Step) string {
	switch s.Type {
	case "exec", "http", "mail", "noop", "fail", "go", "go-hook", "":
		return "a worker"
	default:
		return fmt.Sprintf("a worker of %q tasks", screen.Clean(s.Type))
	}
}

func queueOf(s *api.Step) string {
	if s.Queue == "" {
		return ""
	}
	return "  queue " + screen.Clean(s.Queue)
}

func lost(s *api.Step) string {
	if s.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("  %s lost", plural(s.Lost, "attempt"))
}

// ended formats how a closed step ended: the phase where it is not plain success, attempts, duration, and since when
// its work has been asked to stop, if it is not gone yet.
func (d *drawing) ended(s *api.Step) screen.Line {
	var line screen.Line
	n := len(s.Attempts)
	took := screen.For(s.EndedAt.Sub(s.ScheduledAt))
	switch {
	case s.Phase == api.StepSkipped:
		return line.Add(screen.Dim, "skipped: "+screen.Clean(s.Why))
	case s.Kept:
		return line.Add(screen.Dim, "kept from an earlier run")
	case s.Phase != api.StepSucceeded:
		_, style := mark(s)
		line = line.Add(style, words(string(s.Phase))).Add(screen.Plain, "  ")
	}
	line = line.Add(screen.Plain, took)
	if n > 1 || (n == 1 && s.Phase != api.StepSucceeded) {
		line = line.Add(screen.Dim, "  "+plural(n, "attempt"))
	}
	if s.Stopping && n > 0 {
		line = line.Add(screen.Warn, "  asked to stop "+screen.For(d.now.Sub(s.Attempts[n-1].EndedAt))+" ago")
	}
	return line
}

// lastError returns the failure of the attempt before this one, for an open step.
func lastError(s *api.Step) string {
	for i := len(s.Attempts) - 1; i >= 0; i-- {
		if a := s.Attempts[i]; a.EndedAt != 0 && a.Failure != nil {
			return fmt.Sprintf("attempt %d: %s", a.Attempt, screen.Clean(a.Why))
		}
	}
	return ""
}

// barWidth is the width of a bar.
const barWidth = 16

// stepBar returns the line of the earliest deadline of an open step; nil where there is none, or where it is the
// run's, which has a line of its own.
func (d *drawing) stepBar(s *api.Step, depth int) screen.Line {
	b := s.Binding
	if b == nil || b.Limit == policy.LimitExecution.String() || b.Limit == policy.LimitRun.String() {
		return nil
	}
	return d.bar(b, 2*depth+4)
}

// bar formats a deadline's line: how much of its clock is used up, the time left, which limit it is and where it was
// configured.
func (d *drawing) bar(b *api.Deadline, left int) screen.Line {
	if b == nil {
		return nil
	}
	rest := b.At.Sub(d.now)
	style := screen.Active
	line := screen.Line{}.Add(screen.Plain, strings.Repeat(" ", left))
	if whole := b.At.Sub(b.From); b.From != 0 && whole > 0 {
		if rest < whole/5 {
			style = screen.Warn
		}
		line = line.Add(screen.Dim, "▕").Add(style, screen.Bar(d.now.Sub(b.From), whole, barWidth)).Add(screen.Dim, "▏")
		line = line.Add(screen.Plain, " "+screen.Pad(screen.Left(rest), 6)+" left")
		if rest <= whole { // else the deadline was moved, or its clock begins later
			line = line.Add(screen.Plain, " of "+screen.For(whole))
		}
	} else {
		line = line.Add(screen.Plain, screen.Left(rest)+" left")
	}
	line = line.Add(screen.Dim, "  "+b.Limit)
	if b.Origin != "" {
		line = line.Add(screen.Dim, "  "+origin(b.Origin))
	}
	return line
}

// origin shortens the place of a setting to the file's name.
func origin(o string) string { return screen.Clean(path.Base(o)) }

// cancelled is the reason of a step that was stopped with its run.
var cancelled = policy.ReasonCancelled.String()
