package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

// Showing specifies how much of a run is drawn.
type Showing struct {
	All  bool // every item of a forEach
	Full bool // whether long values are drawn in full
}

// Show draws one run with every attempt of every step. Of the items of a forEach some of each kind are drawn, or all.
func Show(r *api.Run, now api.Time, width int, how Showing) []screen.Line {
	d := drawing{view: View{Runs: []*api.Run{r}}, now: now, width: width, full: how.Full}
	all := how.All
	d.header(r)
	d.facts(r)
	name := nameWidth(r, width, 0)
	steps, items := arranged(r)
	for _, s := range steps {
		d.shown(r, s, items[s.Step], name, 0)
		d.shownItems(r, items[s.Step], name, all)
	}
	begun := byName(steps)
	for _, plan := range r.Plan {
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

// maxShownKept is how many items are shown one by one that a rerun keeps: more are counted.
const maxShownKept = 5

func (d *drawing) shownItems(r *api.Run, items []*api.Step, name int, all bool) {
	unchanged := func(it *api.Step) bool { return it.Kept && it.Phase == api.StepSucceeded }
	drawn, kept := map[class]int{}, 0
	for _, it := range items {
		if unchanged(it) {
			kept++
		}
	}
	if all || kept <= maxShownKept {
		kept = 0
	}
	for _, it := range items {
		if kept > 0 && unchanged(it) {
			continue
		}
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
	if kept > 0 {
		left += fmt.Sprintf(", %d of %s %s", kept, plural(len(items), "item"), Kept)
	}
	if left != "" {
		d.add(head, indent(1).Add(screen.Dim, "… "+left[2:]+" (--all)"))
	}
}

// superseded draws what ran before the run was retried: the hooks of its earlier end.
func (d *drawing) superseded(r *api.Run, name int) {
	first := true
	for _, s := range r.Steps {
		if !s.Superseded {
			continue
		}
		if first {
			d.add(head, indent(0).Add(screen.Dim, "before the run was retried:"))
			first = false
		}
		d.shown(r, s, nil, name, 0)
	}
}

func (d *drawing) operation(op api.Audit) {
	at := Local(op.At)
	if d.sameDay(op.At) {
		at = op.At.Std().Local().Format("15:04:05 -07:00")
	}
	text := fmt.Sprintf("  %s  %s", at, words(op.Operation))
	if op.Step != "" {
		text += " step " + screen.Clean(op.Step)
	}
	for _, m := range op.Deadlines {
		text += ", " + Moved(m) + ","
	}
	text += " by " + screen.Clean(op.Actor)
	if op.Reason != "" {
		text += ": " + screen.Clean(op.Reason)
	}
	d.add(head, screen.Line{}.Add(screen.Dim, text))
}

// facts draws the run's ids, input and deadlines.
func (d *drawing) facts(r *api.Run) {
	fact := func(label, text string) {
		if text != "" {
			d.add(head, screen.Line{}.Add(screen.Dim, "  "+screen.Pad(label, 10)).Add(screen.Plain, text))
		}
	}
	fact("run", r.Run)
	if r.WorkflowID != r.Run {
		fact("id", screen.Clean(r.WorkflowID))
	}
	fact("key", screen.Clean(r.Key))
	if len(r.Input) > 0 && string(r.Input) != "null" && string(r.Input) != "{}" {
		fact("input", d.value(r.Input))
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		fact("label", screen.Clean(key+"="+r.Labels[key]))
	}
	fact("created", Local(r.CreatedAt))
	if r.StateAt != 0 {
		fact("state", d.value(r.State)+" since "+Local(r.StateAt))
	}
	if w := r.Dialect; w != nil && !r.Phase.Closed() {
		fact("status", w.Status+" in "+w.System)
	}
	if q := r.Queue; q != nil {
		fact("queue", screen.Clean(queueText(q)))
	}
	switch {
	case r.Held != nil:
		fact("held", d.held(r.Held)+", for "+screen.For(d.now.Sub(r.Held.Since)))
	case r.QueuedAt != 0:
		fact("waits", "for its queue since "+Local(r.QueuedAt))
	case r.Phase == api.RunPending:
		fact("starts", Local(r.StartAt))
	case r.StartAt != 0 && r.StartedAt != 0:
		fact("started", Local(r.StartedAt))
	}
	fact("cron", r.Cron)
	for _, l := range r.Deadlines {
		if l.At == 0 {
			fact(l.Limit, screen.For(l.Left.Std())+" left, its clock stands"+amountOf(l))
			continue
		}
		fact(l.Limit, "until "+Local(l.At)+amountOf(l))
	}
	d.outlook(r, fact)
	if r.CompensateUntil != 0 {
		fact("undoing", "what it did, until "+Local(r.CompensateUntil)+" at the latest")
	}
	fact("parent", r.Parent)
	fact("follows", r.Previous)
	switch {
	case r.Next != "":
		fact("next", r.Next)
	case r.NextFrom != 0:
		fact("next", "from "+Local(r.NextFrom)+", when this one has ended")
	}
	if why := screen.Clean(r.Why); why != "" && r.Phase.Closed() {
		d.add(head, screen.Line{}.Add(screen.Dim, "  "+screen.Pad("why", 10)).Add(runStyle(r), why))
	}
	d.add(head, nil)
}

// outlook draws what an open run does, what will happen next, and what can end it.
func (d *drawing) outlook(r *api.Run, fact func(label, text string)) {
	if r.Phase.Closed() {
		return
	}
	label := "now"
	if r.Resting {
		label = "was left" // nothing goes on in it, whatever the clock says
	}
	fact(label, screen.Clean(r.Says.Reads(d.now, screen.Left)))
	fact("then", screen.Clean(strings.TrimPrefix(r.Then.Reads(d.now, screen.Left), "Then ")))
	for i, e := range r.Ends {
		text := screen.Clean(e.Text)
		if e.Step != "" {
			text = screen.Clean(e.Step) + ": " + text
		}
		if e.At != 0 {
			text += " " + (&api.Part{At: e.At, Form: api.FormIn}).Reads(d.now, screen.Left)
		}
		if e.Origin != "" {
			text += " (" + origin(e.Origin) + ")"
		}
		fact(map[bool]string{true: "ended by"}[i == 0]+" ", text)
	}
}

// queueText formats the queue of a run, with its key and priority there.
func queueText(q *api.RunQueue) string {
	text := q.Name
	if q.Key != "" {
		text += fmt.Sprintf(", key %q", q.Key)
	}
	if q.Priority != 0 {
		text += fmt.Sprintf(", priority %d", q.Priority)
	}
	return text
}

// amountOf formats a deadline's length, and where it was set.
func amountOf(l api.Deadline) string {
	var parts []string
	if l.After > 0 {
		parts = append(parts, screen.For(l.After.Std()))
	}
	if l.Origin != "" {
		parts = append(parts, origin(l.Origin))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// shown draws a step with its attempts.
func (d *drawing) shown(r *api.Run, s *api.Step, items []*api.Step, name, depth int) {
	glyph, style := mark(s)
	line := indent(depth).Add(style, glyph+" ").Add(screen.Bold, label(s, name)).Add(screen.Plain, "  ")
	if is(s, api.KindGroup) {
		line = append(line, groupStatus(s, items, d.now)...)
	} else if s.Phase.Closed() {
		line = append(line, d.ended(s)...)
	} else {
		line = append(line, d.status(s)...)
	}
	if s.Dialect != nil {
		line = line.Add(screen.Dim, strings.TrimRight("  "+s.Dialect.Status+" "+s.Dialect.Message, " "))
	}
	if s.Actor != "" {
		line = line.Add(screen.Dim, "  by "+screen.Clean(s.Actor))
	}
	d.add(head, line)
	for i := range s.Attempts {
		d.attempt(&s.Attempts[i], depth+2)
	}
	for _, l := range s.Deadlines {
		if l.Limit != policy.LimitScheduleToClose.String() || s.Phase != api.StepSkipped {
			d.deadline(l, depth+2)
		}
	}
	d.signs(s, depth+1)
	if !s.Phase.Closed() {
		if bar := d.stepBar(s, depth); bar != nil {
			d.add(head, bar)
		}
	}
	if _, why := d.said(s); why != "" {
		d.add(head, indent(depth+1).Add(screen.Bad, why))
	}
	if why := screen.Clean(s.Why); why != "" && s.Phase.Closed() && s.Phase != api.StepSkipped &&
		s.Reason != cancelled {
		d.add(head, indent(depth+1).Add(style, "→ "+why))
	}
	d.tests(s, depth+1)
	if out := api.Result(s); out != nil && !is(s, api.KindGroup) {
		d.add(head, indent(depth+1).Add(screen.Dim, "output "+d.value(out)))
	}
}

// signs draws when an attempt that runs gave its last heartbeat, and which limits end it without a sign of life.
func (d *drawing) signs(s *api.Step, depth int) {
	if s.Phase.Closed() || s.StartedAt == 0 || len(s.Attempts) == 0 {
		return
	}
	var parts []string
	if beats := s.Attempts[len(s.Attempts)-1].Heartbeats; len(beats) > 0 {
		text := "last heartbeat " + screen.For(d.now.Sub(beats[len(beats)-1])) + " ago"
		if len(s.Heartbeat) > 0 {
			text += ": " + d.beat(s.Heartbeat)
		}
		parts = append(parts, text)
	}
	for _, e := range s.Ends {
		if !e.Renewed {
			continue
		}
		text := "attempt ended by " + screen.Clean(e.Text)
		if e.At != 0 {
			text += " " + (&api.Part{At: e.At, Form: api.FormIn}).Reads(d.now, screen.Left)
		}
		if e.Origin != "" {
			text += " (" + origin(e.Origin) + ")"
		}
		parts = append(parts, text)
	}
	if len(parts) > 0 {
		d.add(head, indent(depth).Add(screen.Dim, strings.Join(parts, "; ")))
	}
}

// maxBeat is how many characters of the value of a heartbeat are drawn.
const maxBeat = 80

// beat formats the value of a heartbeat: the beginning of a large one.
func (d *drawing) beat(value []byte) string {
	text := []rune(screen.Clean(string(value)))
	if d.full || len(text) <= maxBeat {
		return string(text)
	}
	return string(text[:maxBeat]) + "…"
}

// tests draws the results in the JUnit files of a step.
func (d *drawing) tests(s *api.Step, depth int) {
	results := s.Tests()
	if results == nil {
		return
	}
	d.add(head, indent(depth).Add(screen.Plain, results.String()))
	for _, f := range results.Failures {
		line := indent(depth).Add(screen.Bad, "✗ ").Add(screen.Plain, screen.Clean(f.Title()))
		if f.Message != "" {
			line = line.Add(screen.Dim, "  "+screen.Clean(f.Message))
		}
		d.add(head, line)
	}
	if more := results.Failed - len(results.Failures); more > 0 {
		d.add(head, indent(depth).Add(screen.Dim, fmt.Sprintf("… and %d more", more)))
	}
}

// maxValue is how many characters of a value are drawn.
const maxValue = 300

// value formats a value for people: for a large one its beginning and its size.
func (d *drawing) value(payload []byte) string {
	return Folded(payload, d.full)
}

// Folded formats a value for people: of a large one, its beginning and its size, unless the whole value is wanted.
func Folded(payload []byte, full bool) string {
	text := screen.Clean(string(payload))
	if full || utf8.RuneCountInString(text) <= maxValue {
		return text
	}
	runes := []rune(text)[:maxValue]
	return fmt.Sprintf("%s… (%d bytes, --full shows them)", string(runes), len(payload))
}

func (d *drawing) deadline(l api.Deadline, depth int) {
	text := fmt.Sprintf("%s until %s", l.Limit, Local(l.At))
	if l.After > 0 {
		text += amountOf(l)
	}
	d.add(head, indent(depth-1).Add(screen.Dim, text))
}

// attempt draws one line: number, start, length, outcome and next step.
func (d *drawing) attempt(a *api.Attempt, depth int) {
	line := indent(depth-1).Add(screen.Dim, fmt.Sprintf("#%-3d ", a.Attempt))
	if a.StartedAt == 0 {
		if a.EndedAt == 0 {
			d.add(head, line.Add(screen.Plain, "waits for a worker since "+d.clock(a.ReadyAt)))
			return
		}
		line = line.Add(screen.Plain, "never started")
	} else {
		line = line.Add(screen.Plain, d.clock(a.StartedAt))
		if wait := a.StartedAt.Sub(a.ReadyAt); wait >= second {
			line = line.Add(screen.Dim, "  queued "+screen.For(wait))
		}
	}
	switch {
	case a.EndedAt == 0:
		d.add(head, line.Add(screen.Active, "  running "+screen.Clock(d.now.Sub(a.StartedAt))))
		return
	case a.Failure == nil:
		line = line.Add(screen.Plain, "  "+screen.Pad(screen.For(a.EndedAt.Sub(a.StartedAt)), 6)).
			Add(screen.Good, "  succeeded")
	default:
		took := ""
		if a.StartedAt != 0 {
			took = screen.For(a.EndedAt.Sub(a.StartedAt))
		}
		line = line.Add(screen.Plain, "  "+screen.Pad(took, 6)).Add(screen.Bad, "  "+a.Outcome+": "+screen.Clean(a.Why))
	}
	switch took := screen.For(a.StoppedAt.Sub(a.EndedAt)); {
	case a.Abandoned:
		line = line.Add(screen.Warn, "  abandoned: it did not stop for "+took)
	case a.Killed:
		line = line.Add(screen.Warn, "  killed: it was asked to stop, and was gone after "+took)
	case a.StoppedAt > a.EndedAt:
		line = line.Add(screen.Dim, "  stopped in "+took)
	}
	if a.Note != "" {
		line = line.Add(screen.Warn, "  "+screen.Clean(a.Note))
	}
	if a.NextAt != 0 {
		line = line.Add(screen.Dim, "  next in "+screen.For(a.NextAt.Sub(a.EndedAt)))
	}
	d.add(head, line)
	if a.Child != "" && a.EndedAt != a.StartedAt { // a process that ended at once could not be started
		d.add(head, indent(depth+2).Add(screen.Dim, "run "+a.Child))
	}
}

const second = 1_000_000_000

// clock formats an instant of a table whose head names the day and the zone. An instant with another day or zone says
// so.
func (d *drawing) clock(at api.Time) string {
	if d.sameDay(at) {
		return at.Std().Local().Format("15:04:05.000")
	}
	return at.Std().Local().Format("2006-01-02 15:04:05.000 -07:00")
}

// sameDay reports whether an instant is of the day on which the run was created, as the clocks were set then.
func (d *drawing) sameDay(at api.Time) bool {
	const day = "2006-01-02 -07:00"
	return at.Std().Local().Format(day) == d.view.Runs[0].CreatedAt.Std().Local().Format(day)
}
