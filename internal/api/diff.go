package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Difference is something that two runs do not have in common.
type Difference struct {
	Step string `json:"step,omitempty"` // empty: the run itself
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Comparison is the list of differences between two runs.
type Comparison struct {
	A           string       `json:"a"` // the id of the one run
	B           string       `json:"b"`
	Differences []Difference `json:"differences"`
}

// RunBefore returns the run of the same workflow that was created before a run. Errors: CodeNotFound.
func RunBefore(ctx context.Context, from Reader, r *Run) (*Run, error) {
	page, err := from.Runs(ctx, Query{Workflow: r.Workflow, After: r.Run, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Runs) == 0 {
		return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf(
			"%.18s is the first run of %q: there is none before it to compare with", r.Run, r.Workflow)}
	}
	return from.Run(ctx, page.Runs[0].Run)
}

// commonOutput holds the parts of a process's output that are the same for every process; run logs and -o json show
// them.
var commonOutput = []string{"exitCode", "log", "stdout", "stderr", "stdoutBytes", "stderrBytes", "tests"}

// Result returns a step's output for people, nil if it holds nothing of interest.
func Result(s *Step) []byte {
	if len(s.Output) == 0 || string(s.Output) == "null" {
		return nil
	}
	var fields map[string]json.RawMessage
	if s.Kind == "" && s.Item != nil { // an item of a loop is a value, which the loop itself has too
		return nil
	}
	if s.Type != "exec" || json.Unmarshal(s.Output, &fields) != nil {
		return s.Output
	}
	for _, name := range commonOutput {
		delete(fields, name)
	}
	text, err := json.Marshal(fields)
	if err != nil || len(fields) == 0 {
		return nil
	}
	return text
}

// comparison collects differences.
type comparison struct{ all []Difference }

func (c *comparison) text(step, what, a, b string) {
	if a != b {
		c.all = append(c.all, Difference{step, what, a, b})
	}
}

func (c *comparison) value(step, what string, a, b json.RawMessage) {
	c.text(step, what, compacted(a), compacted(b))
}

// took compares times. They are never equal, so only large deviations are differences.
func (c *comparison) took(step string, a, b time.Duration) {
	less, more := min(a, b), max(a, b)
	if more-less > time.Second && more > less*3/2 {
		c.text(step, "took", Length(a), Length(b))
	}
}

// Differences returns the differences between two runs: of the runs themselves, and then of each step. It lists times
// that differ by half and by more than a second. The output of a process is compared without what it printed.
func Differences(one, other *Run) []Difference {
	c := &comparison{all: []Difference{}}
	c.text("", "workflow", one.Workflow, other.Workflow)
	c.text("", "definition", one.Definition, other.Definition)
	c.value("", "input", one.Input, other.Input)
	c.text("", "phase", string(one.Phase), string(other.Phase))
	c.text("", "why", one.Why, other.Why)
	if one.EndedAt != 0 && other.EndedAt != 0 {
		c.took("", one.EndedAt.Sub(one.CreatedAt), other.EndedAt.Sub(other.CreatedAt))
	}
	c.value("", "output", one.Output, other.Output)
	left, right := stepsByKey(one), stepsByKey(other)
	var keys []string
	known := map[string]bool{}
	for _, r := range []*Run{one, other} {
		for _, s := range r.Steps {
			if !s.Superseded && !known[s.Step] {
				keys, known[s.Step] = append(keys, s.Step), true
			}
		}
	}
	for _, key := range keys {
		c.steps(key, left[key], right[key])
	}
	return c.all
}

func stepsByKey(r *Run) map[string]*Step {
	out := map[string]*Step{}
	for _, s := range r.Steps {
		if !s.Superseded {
			out[s.Step] = s
		}
	}
	return out
}

func (c *comparison) steps(key string, a, b *Step) {
	if a == nil || b == nil {
		c.text(key, "phase", phaseOf(a), phaseOf(b))
		return
	}
	c.text(key, "phase", phaseOf(a), phaseOf(b))
	c.text(key, "attempts", fmt.Sprint(len(a.Attempts)), fmt.Sprint(len(b.Attempts)))
	c.text(key, "why", a.Why, b.Why)
	if a.EndedAt != 0 && b.EndedAt != 0 && a.ScheduledAt != 0 && b.ScheduledAt != 0 {
		c.took(key, a.EndedAt.Sub(a.ScheduledAt), b.EndedAt.Sub(b.ScheduledAt))
	}
	if len(a.Deadlines) == len(b.Deadlines) {
		for i, l := range a.Deadlines {
			c.text(key, l.Limit+" limit", Length(l.After.Std()), Length(b.Deadlines[i].After.Std()))
		}
	}
	if a.Kind != KindGroup { // its items are compared one by one
		c.value(key, "output", Result(a), Result(b))
	}
}

func phaseOf(s *Step) string {
	if s == nil {
		return "not begun"
	}
	return strings.ReplaceAll(string(s.Phase), "_", " ")
}

// compacted returns JSON without blanks, so that only its contents are compared.
func compacted(payload json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, payload) != nil {
		return string(payload)
	}
	return b.String()
}
