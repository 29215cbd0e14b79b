package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

func (a *app) runRestartCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "restart RUN", Short: "Start a new run with the same input", Args: cobra.ExactArgs(1),
		Long: "Starts a new run of the same flow, as it was then, with the same input and fresh deadlines. The earlier run stays as it is.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repeat(cmd.Context(), args[0], follow, nil)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "carry it out at once, with the live view")
	a.completeFor(cmd, 1)
	return cmd
}

func (a *app) runRerunCommand() *cobra.Command {
	var follow bool
	var from string
	var steps []string
	cmd := &cobra.Command{
		Use: "rerun RUN --from STEP | --steps A,B", Short: "Start a new run that keeps the results of the other steps", Args: cobra.ExactArgs(1),
		Long: `Starts a new run with the same input in which only some steps run again: with --from a step and all that depends on it, with
--steps exactly those; pages[3] is one item of a forEach. Of the others the recorded results are kept; one that has none runs as well. Deadlines are fresh.`,
		Example: "  pawl run rerun order-42 --from render --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (from == "") == (len(steps) == 0) {
				return usage("say which steps: --from STEP or --steps A,B")
			}
			return a.repeat(cmd.Context(), args[0], follow, func(t *trail.Trail, c *compiled) ([]core.Kept, error) {
				again := steps
				if from != "" {
					again = []string{from}
				}
				for _, name := range again {
					base, _, _ := strings.Cut(name, "[") // pages[3]: an item of a forEach
					if !slices.Contains(names(c), base) {
						return nil, usage("the flow has no step %q; %s", name, nearestStep(name, names(c)))
					}
				}
				kept, err := flow.Rerun(c.doc, t.Run, again, from != "")
				return kept, asUsage(err)
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "carry it out at once, with the live view")
	cmd.Flags().StringVar(&from, "from", "", "this step and everything that depends on it")
	cmd.Flags().StringSliceVar(&steps, "steps", nil, "these steps only")
	a.completeFor(cmd, 1)
	return cmd
}

func names(c *compiled) []string {
	var out []string
	for _, s := range c.steps() {
		out = append(out, s.Name)
	}
	return out
}

// repeat starts a run like an earlier one. keep chooses what is taken over; nil: nothing.
func (a *app) repeat(ctx context.Context, name string, follow bool, keep func(*trail.Trail, *compiled) ([]core.Kept, error)) error {
	var req engine.StartRequest
	err := a.reading(ctx, func(ctx context.Context, h reader) error {
		id, err := findRun(ctx, h, name)
		if err != nil {
			return err
		}
		t, c, err := loadOurs(ctx, h, id)
		if err != nil {
			return err
		}
		if !t.Run.Phase.Closed() && t.Run.WorkflowID != "" {
			return fmt.Errorf("run %s is still open under the workflow id %q: cancel it first, then start it again", live.Short(id), t.Run.WorkflowID)
		}
		if req, err = again(t, c); err != nil {
			return err
		}
		req.Actor, req.Reason = a.who(), a.reason
		if req.Reason == "" {
			req.Reason = strings.TrimSpace("as run " + id.String())
		}
		if keep != nil {
			req.Keep, err = keep(t, c)
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.startRun(ctx, req, follow, a.chooseTelling(false, false))
}
