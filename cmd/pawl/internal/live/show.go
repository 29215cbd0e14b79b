package live

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Show draws one run with every attempt of every step. Of the items of a forEach some of each kind are drawn, or all.
func Show(r *Run, now core.Time, width int, all bool) []screen.Line {
	d := drawing{view: View{Runs: []*Run{r}}, now: now, width: width}
	d.header(r)
	d.facts(r)
	name := nameWidth(r, width, 0)
	steps, items := arranged(r.Run)
	begun := map[string]bool{}
	for _, s := range steps {
		begun[s.Spec.Name] = true
		d.shown(r, s, items[s.ID], name, 0)
		d.shownItems(r, items[s.ID], name, all)
	}
	for _, plan := range r.Steps {
		d.toCome(r, plan, begun, name, 0)
	}
	d.superseded(r, name)
	for _, op := range r.Operations {
		d.operation(op)
	}
	lines := make([]screen.Line, len(d.rows))
	for i, row := range d.rows {
		lines[i] = row.line.Cut(width)
	}
	return lines
}

// maxShownItems is how many items of each kind are shown with their attempts.
const maxShownItems = 20

func (d *drawing) shownItems(r *Run, items []*core.Step, name int, all bool) {
	drawn := map[class]int{}
	for _, it := range items {
		c := classOf(it)
		if drawn[c]++; all || drawn[c] <= maxShownItems {
			d.shown(r, it, nil, name, 1)
		}
	}
	left := ""
	for _, c := range []class{done, active, problem} {
		if n := drawn[c] - maxShownItems; n > 0 && !all {
			left += ", " + fmt.Sprintf(leftOut[c], n)
		}
	}
	if left != "" {
		d.add(head, indent(1).Add(screen.Dim, "… "+left[2:]+" (--all)"))
	}
}

// superseded draws what ran before the run was retried: the hooks of the end it had then.
func (d *drawing) superseded(r *Run, name int) {
	first := true
	for i := range r.Run.Steps {
		s := &r.Run.Steps[i]
		if !r.Superseded(s) {
			continue
		}
		if first {
			d.add(head, indent(0).Add(screen.Dim, "before the run was retried:"))
			first = false
		}
		d.shown(r, s, nil, name, 0)
	}
}

func (d *drawing) operation(op trail.Operation) {
	text := fmt.Sprintf("  %s  %s", op.At.Std().Local().Format("15:04:05"), strings.ReplaceAll(op.Op.String(), "_", " "))
	if op.Step != "" {
		text += " step " + screen.Clean(op.Step)
	}
	for _, m := range op.Moves {
		text += ", " + m.String() + ","
	}
	text += " by " + screen.Clean(op.Actor)
	if op.Reason != "" {
		text += ": " + screen.Clean(op.Reason)
	}
	d.add(head, screen.Line{}.Add(screen.Dim, text))
}

// facts are the run's ids, input and deadlines.
func (d *drawing) facts(r *Run) {
	run := r.Run
	fact := func(label, text string) {
		if text != "" {
			d.add(head, screen.Line{}.Add(screen.Dim, "  "+screen.Pad(label, 10)).Add(screen.Plain, text))
		}
	}
	fact("run", run.ID.String())
	if run.WorkflowID != run.ID.String() {
		fact("id", screen.Clean(run.WorkflowID))
	}
	fact("key", screen.Clean(run.Key))
	if len(run.Input) > 0 && string(run.Input) != "null" && string(run.Input) != "{}" {
		fact("input", screen.Clean(string(run.Input)))
	}
	fact("created", trail.Local(run.CreatedAt))
	if w := r.Words; w != nil && !run.Phase.Closed() {
		fact("status", w.Status+" in "+w.System)
	}
	switch {
	case run.Phase == core.RunPending:
		fact("starts", trail.Local(run.StartAt))
	case run.StartAt != 0 && run.StartedAt != 0:
		fact("started", trail.Local(run.StartedAt))
	}
	timetable := ""
	if def := run.Attached(); def != nil {
		timetable = def.Timetable
	}
	fact("cron", timetable)
	for _, l := range []struct {
		kind policy.LimitKind
		core.RunLimit
	}{{policy.LimitExecution, run.Execution}, {policy.LimitRun, run.Deadline}} {
		if l.At != 0 {
			fact(l.kind.String(), "until "+trail.Local(l.At)+amountOf(l.RunLimit))
		}
	}
	if run.Parent.Run != (core.RunID{}) {
		fact("parent", run.Parent.Run.String())
	}
	if run.Chain.Previous != (core.RunID{}) {
		fact("follows", run.Chain.Previous.String())
	}
	if run.Next != (core.RunID{}) {
		fact("next", run.Next.String())
	} else if at := run.Follows(d.now); at != 0 && !run.Phase.Closed() {
		fact("next", "from "+trail.Local(at)+", when this one has ended")
	}
	if why := r.RunWhy(); why != "" && run.Phase.Closed() {
		d.add(head, screen.Line{}.Add(screen.Dim, "  "+screen.Pad("why", 10)).Add(runStyle(run), why))
	}
	d.add(head, nil)
}

func amountOf(l core.RunLimit) string {
	text := ""
	if l.After > 0 {
		text = " (" + screen.For(l.After)
		if l.Origin != "" {
			text += ", " + origin(l.Origin)
		}
		return text + ")"
	}
	if l.Origin != "" {
		return " (" + origin(l.Origin) + ")"
	}
	return ""
}

// shown draws a step with its attempts.
func (d *drawing) shown(r *Run, s *core.Step, items []*core.Step, name, depth int) {
	glyph, style := mark(s)
	line := indent(depth).Add(style, glyph+" ").Add(screen.Bold, label(s, name)).Add(screen.Plain, "  ")
	if s.Spec.Kind == core.KindGroup {
		line = append(line, groupStatus(r, s, items)...)
	} else if s.Phase.Closed() {
		line = append(line, ended(r, s)...)
	} else {
		line = append(line, d.status(r, s)...)
	}
	if r.Words != nil {
		line = line.Add(screen.Dim, strings.TrimRight("  "+r.Words.Step(s), " "))
	}
	d.add(head, line)
	attempts := r.Attempts(s.ID)
	for i := range attempts {
		d.attempt(r, s, &attempts[i], depth+2)
	}
	if s.ScheduleToClose != 0 && s.Phase != core.StepSkipped {
		d.deadline(policy.LimitScheduleToClose, s.ScheduleToClose, s.Effective().ScheduleToClose, depth+2)
	}
	if s.Deadline != 0 {
		d.deadline(policy.LimitDeadline, s.Deadline, s.Effective().Deadline, depth+2)
	}
	if !s.Phase.Closed() {
		if b := r.Binding(s); b.Limit > policy.LimitRun {
			d.add(head, d.bar(b, 2*depth+4))
		}
	}
	if why := r.StepWhy(s); why != "" && s.Phase.Closed() && s.Phase != core.StepSkipped && s.Reason != policy.ReasonCancelled {
		d.add(head, indent(depth+1).Add(style, "→ "+why))
	}
	if out := result(s); out != "" && s.Spec.Kind != core.KindGroup {
		d.add(head, indent(depth+1).Add(screen.Dim, "output "+out))
	}
}

// boring are the parts of a process's output that are the same for every process; --logs and -o json show them.
var boring = []string{"exitCode", "log", "stdout", "stderr", "stdoutBytes", "stderrBytes"}

// result is a step's output for people; "" where there is nothing of interest in it.
func result(s *core.Step) string {
	if len(s.Output) == 0 || string(s.Output) == "null" {
		return ""
	}
	var fields map[string]json.RawMessage
	if s.Spec.Type != "exec" || json.Unmarshal(s.Output, &fields) != nil {
		return screen.Clean(string(s.Output))
	}
	for _, name := range boring {
		delete(fields, name)
	}
	text, err := json.Marshal(fields)
	if err != nil || len(fields) == 0 {
		return ""
	}
	return screen.Clean(string(text))
}

func (d *drawing) deadline(kind policy.LimitKind, at core.Time, l *policy.Limit, depth int) {
	text := fmt.Sprintf("%s until %s", kind, trail.Local(at))
	if l != nil && l.After > 0 {
		text += " (" + screen.For(l.After)
		if l.Origin != "" {
			text += ", " + origin(l.Origin)
		}
		text += ")"
	}
	d.add(head, indent(depth-1).Add(screen.Dim, text))
}

// attempt is one line: number, start, how long it ran, how it ended and what follows.
func (d *drawing) attempt(r *Run, s *core.Step, a *trail.Attempt, depth int) {
	line := indent(depth-1).Add(screen.Dim, fmt.Sprintf("#%-3d ", a.Number))
	if a.Started == 0 {
		if a.Ended == 0 {
			d.add(head, line.Add(screen.Plain, "waits for a worker since "+clock(a.Ready)))
			return
		}
		line = line.Add(screen.Plain, "never started")
	} else {
		line = line.Add(screen.Plain, clock(a.Started))
		if wait := a.Started.Sub(a.Ready); wait >= second {
			line = line.Add(screen.Dim, "  queued "+screen.For(wait))
		}
	}
	switch {
	case a.Ended == 0:
		d.add(head, line.Add(screen.Active, "  running "+screen.Clock(d.now.Sub(a.Started))))
		return
	case a.Failure == nil:
		line = line.Add(screen.Plain, "  "+screen.Pad(screen.For(a.Ended.Sub(a.Started)), 6)).Add(screen.Good, "  succeeded")
	default:
		took := ""
		if a.Started != 0 {
			took = screen.For(a.Ended.Sub(a.Started))
		}
		line = line.Add(screen.Plain, "  "+screen.Pad(took, 6)).Add(screen.Bad, "  "+a.Outcome()+": "+trail.Sentence(a.Failure))
	}
	if a.Abandoned {
		line = line.Add(screen.Warn, "  abandoned: it did not stop")
	}
	if a.Note != "" {
		line = line.Add(screen.Warn, "  "+screen.Clean(a.Note))
	}
	if a.NextAt != 0 {
		line = line.Add(screen.Dim, "  next in "+screen.For(a.NextAt.Sub(a.Ended)))
	}
	d.add(head, line)
	if a.Child != (core.RunID{}) && a.Ended != a.Started { // one that ended at once could not be started
		d.add(head, indent(depth+2).Add(screen.Dim, "run "+a.Child.String()))
	}
}

const second = 1_000_000_000

func clock(at core.Time) string { return at.Std().Local().Format("15:04:05.000") }
