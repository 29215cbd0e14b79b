// Package report makes an HTML page of one run: how it ended, a timeline of all attempts, and why each ended as it did.
// The page is one file. It loads nothing, has no script, and escapes every value.
package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

//go:embed report.html
var source string

var page = template.Must(template.New("report").Parse(source))

// maxRows is how many steps the timeline has at most. Those that ended badly go first.
const maxRows = 400

// maxValue bounds a value on the page, in bytes.
const maxValue = 64 << 10

// view is the content of the page.
type view struct {
	Title, Phase, Class, Took, Why string
	Facts                          []fact
	Input, Output                  string
	Chart                          chart
	Steps                          []step
	LeftOut                        int
	Operations                     []operation
	Made                           string
}

type fact struct{ Name, Value string }

type step struct {
	Key, Kind, Phase, Class, Took, Why, Output, Printed string
	Limits                                              []fact
	Attempts                                            []attempt
}

type attempt struct {
	Number                                int
	Started, Queued, Took, Outcome, Class string
	Why, Note, Next, Child                string
}

type operation struct{ At, What, Step, Actor, Reason string }

// Write writes the page of a run as it is at an instant.
func Write(w io.Writer, r *api.Run, now api.Time) error {
	end := r.EndedAt
	if end == 0 {
		end = now
	}
	v := view{
		Title: r.Workflow, Phase: words(string(r.Phase)), Class: classOf(string(r.Phase)),
		Took: screen.For(end.Sub(r.CreatedAt)), Why: saysOf(r, now), Facts: facts(r),
		Input: pretty(r.Input), Output: pretty(r.Output), Made: instant(now),
	}
	steps := shown(r)
	v.LeftOut = countSteps(r) - len(steps)
	for _, s := range steps {
		v.Steps = append(v.Steps, stepOf(s, now))
	}
	for _, op := range r.Operations {
		v.Operations = append(v.Operations, operation{
			instant(op.At), words(op.Operation), op.Step, op.Actor, op.Reason,
		})
	}
	v.Chart = draw(r, steps, end)
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// saysOf returns why a run ended as it did, or what an open one does.
func saysOf(r *api.Run, now api.Time) string {
	if r.Phase.Closed() {
		return r.Why
	}
	return screen.Clean(r.Says.Reads(now, screen.For))
}

// shown returns the steps on the page, in their order. If there are very many, those that ended well are left out, the
// last ones first.
func shown(r *api.Run) []*api.Step {
	left := countSteps(r) - maxRows
	var out []*api.Step
	for _, s := range slices.Backward(r.Steps) {
		if s.Superseded && len(s.Attempts) == 0 {
			continue
		}
		if left > 0 && (s.Phase == api.StepSucceeded || s.Phase == api.StepSkipped) {
			left--
			continue
		}
		out = append(out, s)
	}
	slices.Reverse(out)
	return out
}

func countSteps(r *api.Run) int {
	n := 0
	for _, s := range r.Steps {
		if !s.Superseded || len(s.Attempts) > 0 {
			n++
		}
	}
	return n
}

func facts(r *api.Run) []fact {
	all := []fact{
		{"run", r.Run},
		{"workflow id", r.WorkflowID},
		{"key", r.Key},
		{"created", instant(r.CreatedAt)},
		{"ended", instant(r.EndedAt)},
		{"parent", r.Parent},
		{"follows", r.Previous},
		{"next", r.Next},
	}
	if r.WorkflowID == r.Run {
		all[1].Value = ""
	}
	for key, value := range r.Labels {
		all = append(all, fact{"label", key + "=" + value})
	}
	slices.SortStableFunc(all[8:], func(a, b fact) int { return strings.Compare(a.Value, b.Value) })
	for _, l := range r.Deadlines {
		all = append(all, limitOf(l))
	}
	return slices.DeleteFunc(all, func(f fact) bool { return f.Value == "" })
}

func limitOf(l api.Deadline) fact {
	text := "until " + instant(l.At)
	if l.At == 0 {
		text = screen.For(l.Left.Std()) + " left, its clock stands"
	}
	if l.After > 0 {
		text += ", after " + screen.For(l.After.Std())
	}
	if l.Origin != "" {
		text += ", set at " + l.Origin
	}
	return fact{l.Limit, text}
}

func stepOf(s *api.Step, now api.Time) step {
	out := step{
		Key: s.Step, Kind: kindOf(s), Phase: words(string(s.Phase)), Class: classOf(string(s.Phase)),
		Why: whyOf(s, now), Output: pretty(api.Result(s)), Printed: live.Printed(s),
	}
	if s.ScheduledAt != 0 {
		end := s.EndedAt
		if end == 0 {
			end = now
		}
		out.Took = screen.For(end.Sub(s.ScheduledAt))
	}
	for _, l := range s.Deadlines {
		out.Limits = append(out.Limits, limitOf(l))
	}
	for i := range s.Attempts {
		out.Attempts = append(out.Attempts, attemptOf(&s.Attempts[i], now))
	}
	return out
}

// whyOf returns why a step ended as it did, or what an open one does.
func whyOf(s *api.Step, now api.Time) string {
	if s.Phase.Closed() {
		return s.Why
	}
	return screen.Clean(s.Says.Reads(now, screen.For))
}

func attemptOf(a *api.Attempt, now api.Time) attempt {
	out := attempt{
		Number: a.Attempt, Started: instant(a.StartedAt), Outcome: words(a.Outcome), Class: classOf(a.Outcome),
		Why: a.Why, Note: a.Note, Child: a.Child,
	}
	if a.StartedAt != 0 && a.StartedAt > a.ReadyAt && a.ReadyAt != 0 {
		out.Queued = screen.For(a.StartedAt.Sub(a.ReadyAt))
	}
	switch {
	case a.StartedAt == 0:
		out.Started = "never started"
	case a.EndedAt == 0:
		out.Took, out.Outcome, out.Class = screen.For(now.Sub(a.StartedAt)), "running", "open"
	default:
		out.Took = screen.For(a.EndedAt.Sub(a.StartedAt))
	}
	if a.Limit != "" {
		out.Why = strings.TrimPrefix(a.Limit+" limit; "+out.Why, "; ")
	}
	if a.NextAt != 0 {
		out.Next = screen.For(a.NextAt.Sub(a.EndedAt))
	}
	return out
}

func kindOf(s *api.Step) string {
	if s.Type != "" {
		return s.Type
	}
	return s.Kind
}

// classOf returns the class of the style sheet for a phase or an outcome.
func classOf(phase string) string {
	switch phase {
	case "succeeded", "continued":
		return "good"
	case "failed", "timed_out", "error", "timeout":
		return "bad"
	case "cancelled", "terminated", "skipped", "lost":
		return "warn"
	default:
		return "open"
	}
}

func words(text string) string { return strings.ReplaceAll(text, "_", " ") }

func instant(at api.Time) string {
	if at == 0 {
		return ""
	}
	return at.Std().UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// pretty returns a value with line breaks. It is empty if there is none.
func pretty(payload json.RawMessage) string {
	if len(payload) == 0 || string(payload) == "null" {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, payload, "", "  ") != nil {
		b.Reset()
		b.Write(payload)
	}
	if b.Len() > maxValue {
		return strings.ToValidUTF8(b.String()[:maxValue], "") + "\n…"
	}
	return b.String()
}
