package live

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// step draws one step: a line, for an open one the bar of its binding deadline and its last error, for one that ended
// badly the reason.
func (d *drawing) step(r *Run, s *core.Step, items []*core.Step, name, depth int) {
	glyph, style := mark(s)
	line := indent(depth).Add(style, glyph+" ").Add(nameStyle(s), label(s, name)).Add(screen.Plain, "  ")
	if s.Spec.Kind == core.KindGroup {
		line = append(line, groupStatus(r, s, items)...)
	} else {
		line = append(line, d.status(r, s)...)
	}
	d.add(classOf(s), line)
	if why := r.StepWhy(s); why != "" && s.Phase.Closed() && classOf(s) == problem {
		d.add(problem, indent(depth+1).Add(style, why))
	}
	if !s.Phase.Closed() {
		if b := r.Binding(s); b.Limit > policy.LimitRun {
			if bar := d.bar(b, 2*depth+4); bar != nil {
				d.add(detail, bar)
			}
		}
		if cause := lastError(r, s); cause != "" {
			d.add(detail, indent(depth+1).Add(screen.Bad, cause))
		}
	}
	d.items(r, items, name, depth+1)
	if child := d.view.Children[s.Child]; child != nil && s.Child != (core.RunID{}) && depth < 4 {
		d.run(child, depth+1)
	}
}

// label is a step's name, filled up to its column; an item stands below its group and needs its index only.
func label(s *core.Step, name int) string {
	if s.Group != core.NoStep {
		return screen.Pad(fmt.Sprintf("[%d]", s.Item), 6)
	}
	return screen.Pad(screen.Cut(screen.Clean(s.Key()), name), name)
}

// classOf says how a step's line is left out.
func classOf(s *core.Step) class {
	switch {
	case !s.Phase.Closed():
		return active
	case s.Phase == core.StepSucceeded || s.Phase == core.StepSkipped || s.Reason == policy.ReasonCancelled:
		return done
	default:
		return problem
	}
}

func mark(s *core.Step) (string, screen.Style) {
	switch s.Phase {
	case core.StepSucceeded:
		return "✓", screen.Good
	case core.StepFailed, core.StepTimedOut:
		return "✗", screen.Bad
	case core.StepCancelled:
		return "⊘", screen.Warn
	case core.StepSkipped:
		return "–", screen.Dim
	case core.StepBackingOff:
		return "↻", screen.Warn
	case core.StepScheduled:
		return "○", screen.Active
	case core.StepSuspended:
		if s.Spec.Kind == core.KindGroup || s.Spec.Kind == core.KindChild {
			return "▸", screen.Active
		}
		return "◷", screen.Active
	default:
		return "●", screen.Active
	}
}

func nameStyle(s *core.Step) screen.Style {
	if classOf(s) == done {
		return screen.Plain
	}
	return screen.Bold
}

// status is what a step does, or how it ended.
func (d *drawing) status(r *Run, s *core.Step) screen.Line {
	if s.Phase.Closed() {
		return ended(r, s)
	}
	count := "attempt " + trail.Count(s, max(s.Attempt, 1))
	paused := ""
	if r.Run.PausedAt != 0 {
		paused = ", paused"
	}
	switch {
	case s.Phase == core.StepBackingOff && s.Stopping:
		return screen.Line{}.Add(screen.Warn, "waits until attempt "+fmt.Sprint(s.Attempt)+" has stopped")
	case s.Phase == core.StepBackingOff:
		next := "attempt " + trail.Count(s, s.Attempt+1)
		return screen.Line{}.Add(screen.Warn, next+" in "+screen.Left(s.NextAt.Sub(d.now))+paused).
			Add(screen.Dim, "  backoff "+screen.For(millis(s.Delay)))
	case s.Phase == core.StepScheduled:
		return screen.Line{}.Add(screen.Plain, count+" waits for a worker"+paused+"  "+screen.Clock(d.now.Sub(s.ReadyAt))).
			Add(screen.Dim, queueOf(s))
	case s.Phase == core.StepRunning:
		return screen.Line{}.Add(screen.Plain, count+"  "+screen.Clock(d.now.Sub(s.Started))).Add(screen.Dim, lost(s))
	case s.Spec.Kind == core.KindSleep:
		return screen.Line{}.Add(screen.Plain, "sleeps, "+screen.Left(s.NextAt.Sub(d.now))+" left"+paused)
	case s.Spec.Kind == core.KindWait:
		return screen.Line{}.Add(screen.Plain, "waits for event "+screen.Clean(s.Spec.Event)).Add(screen.Dim, "  "+screen.Clock(d.now.Sub(s.ScheduledAt)))
	case s.Spec.Kind == core.KindChild && s.Started != 0:
		return screen.Line{}.Add(screen.Plain, "run "+Short(s.Child)).Add(screen.Dim, "  "+count)
	default:
		return screen.T(words(s.Phase) + paused)
	}
}

func queueOf(s *core.Step) string {
	if s.Spec.Queue == "" {
		return ""
	}
	return "  queue " + screen.Clean(s.Spec.Queue)
}

func lost(s *core.Step) string {
	if s.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("  %s lost", plural(s.Lost, "attempt"))
}

// ended is how a closed step ended: the phase where it is not plain success, attempts, duration.
func ended(r *Run, s *core.Step) screen.Line {
	var line screen.Line
	n := len(r.Attempts(s.ID))
	took := screen.For(s.EndedAt.Sub(s.ScheduledAt))
	switch {
	case s.Phase == core.StepSkipped:
		return line.Add(screen.Dim, "skipped: "+r.StepWhy(s))
	case s.Kept:
		return line.Add(screen.Dim, "kept from an earlier run")
	case s.Phase != core.StepSucceeded:
		_, style := mark(s)
		line = line.Add(style, words(s.Phase)).Add(screen.Plain, "  ")
	}
	line = line.Add(screen.Plain, took)
	if n > 1 || (n == 1 && s.Phase != core.StepSucceeded) {
		line = line.Add(screen.Dim, "  "+plural(n, "attempt"))
	}
	return line
}

// lastError is why the attempt before this one ended, for an open step.
func lastError(r *Run, s *core.Step) string {
	all := r.Attempts(s.ID)
	for i := len(all) - 1; i >= 0; i-- {
		if a := all[i]; a.Ended != 0 && a.Failure != nil {
			return fmt.Sprintf("attempt %d: %s", a.Number, trail.Sentence(a.Failure))
		}
	}
	return ""
}

// barWidth is the width of a bar.
const barWidth = 16

// bar is a deadline's line: how much of its clock is used up, what is left, which limit it is and where it was configured.
func (d *drawing) bar(b trail.Deadline, left int) screen.Line {
	if b.At == 0 {
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
		line = line.Add(screen.Plain, " "+screen.Pad(screen.Left(rest), 6)+" left of "+screen.For(whole))
	} else {
		line = line.Add(screen.Plain, screen.Left(rest)+" left")
	}
	line = line.Add(screen.Dim, "  "+b.Limit.String())
	if b.Origin != "" {
		line = line.Add(screen.Dim, "  "+origin(b.Origin))
	}
	return line
}

// origin shortens the place of a setting to the file's name.
func origin(o string) string { return screen.Clean(path.Base(o)) }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
