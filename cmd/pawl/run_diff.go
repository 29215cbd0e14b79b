package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

// difference is something that two runs do not have in common.
type difference struct {
	Step string `json:"step,omitempty"` // empty: the run itself
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

func (a runVerbs) runDiffCommand() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "diff RUN [RUN]",
		Short: "Compare two runs: input, definition, and each step's end, attempts, time, output",
		Args:  cobra.RangeArgs(1, 2),
		Long: `Compares two runs, such as the last one that succeeded and one that failed. With one RUN it compares the
run of the same workflow before it with this one. Of times it tells those that differ by half and by more than a
second. The output of a process is compared without what it printed.`,
		Example: "  pawl run diff order-42 @last",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				one, err := svc.Run(ctx, args[0])
				if err != nil {
					return err
				}
				if len(args) == 1 {
					before, err := runBefore(ctx, svc, one)
					if err != nil {
						return err
					}
					return a.tellDiff(before, one, full)
				}
				other, err := svc.Run(ctx, args[1])
				if err != nil {
					return err
				}
				if one.Run == other.Run {
					return usage("%s and %s are the same run, %s: name two", args[0], args[1], live.Short(one.Run))
				}
				return a.tellDiff(one, other, full)
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "values as long as they are")
	a.completeFor(cmd, 2)
	return cmd
}

// runBefore returns the run of the same workflow that was created before a run.
func runBefore(ctx context.Context, svc api.Service, r *api.Run) (*api.Run, error) {
	page, err := svc.Runs(ctx, api.Query{Workflow: r.Workflow, After: r.Run, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Runs) == 0 {
		return nil, usage("%s is the first run of %s: there is none before it to compare with", live.Short(r.Run),
			screen.Clean(r.Workflow))
	}
	return svc.Run(ctx, page.Runs[0].Run)
}

func (a runVerbs) tellDiff(one, other *api.Run, full bool) error {
	all := compareRuns(one, other)
	if a.structured() {
		return a.print(all)
	}
	a.say("%s %s %s, %s %s %s", screen.Clean(one.Workflow), live.Short(one.Run), one.Phase,
		screen.Clean(other.Workflow), live.Short(other.Run), other.Phase)
	if len(all) == 0 {
		a.say("They do not differ.")
	}
	step := ""
	for i, d := range all {
		if i == 0 || d.Step != step {
			if step = d.Step; step == "" {
				a.say("the run")
			} else {
				a.say("step %s", screen.Clean(step))
			}
		}
		a.say("  %s", d.What)
		for _, side := range []struct{ sign, text string }{{"-", d.A}, {"+", d.B}} {
			if text := live.Folded([]byte(side.text), full); text != "" {
				a.say("    %s %s", side.sign, text)
			}
		}
	}
	return nil
}

// comparison collects differences.
type comparison struct{ all []difference }

func (c *comparison) text(step, what, a, b string) {
	if a != b {
		c.all = append(c.all, difference{step, what, a, b})
	}
}

func (c *comparison) value(step, what string, a, b json.RawMessage) {
	c.text(step, what, compacted(a), compacted(b))
}

// took compares times. They are never equal, so only what stands out is a difference.
func (c *comparison) took(step string, a, b time.Duration) {
	less, more := min(a, b), max(a, b)
	if more-less > time.Second && more > less*3/2 {
		c.text(step, "took", screen.For(a), screen.For(b))
	}
}

// compareRuns compares two runs.
func compareRuns(one, other *api.Run) []difference {
	c := &comparison{all: []difference{}}
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
	for _, r := range []*api.Run{one, other} {
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

func stepsByKey(r *api.Run) map[string]*api.Step {
	out := map[string]*api.Step{}
	for _, s := range r.Steps {
		if !s.Superseded {
			out[s.Step] = s
		}
	}
	return out
}

func (c *comparison) steps(key string, a, b *api.Step) {
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
			c.text(key, l.Limit+" limit", screen.For(l.After.Std()), screen.For(b.Deadlines[i].After.Std()))
		}
	}
	if a.Kind != api.KindGroup { // its items are compared one by one
		c.value(key, "output", live.Result(a), live.Result(b))
	}
}

func phaseOf(s *api.Step) string {
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
