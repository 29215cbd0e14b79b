package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/service"
)

func (a runVerbs) runRestartCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "restart RUN", Short: "Start a new run with the same input", Args: cobra.ExactArgs(1),
		Long: "Starts a new run of the same flow, as it was then, with the same input and fresh deadlines. The " +
			"earlier run stays as it is.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repeat(cmd.Context(), args[0], follow, api.RestartRequest{})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "carry it out at once, with the live view")
	a.completeFor(cmd, 1)
	return cmd
}

func (a runVerbs) runRerunCommand() *cobra.Command {
	var follow, failed bool
	var from, file string
	var steps, input []string
	var src sources
	cmd := &cobra.Command{
		Use:   "rerun RUN --failed | --from STEP | --steps A,B",
		Short: "Start a new run that keeps the results of the other steps",
		Args:  cobra.ExactArgs(1),
		Long: `Starts a new run with the same input in which only some steps run again, and the recorded results of the
others are kept. With --failed all steps and items that failed run again, and all that depends on them; with --from a
step and all that depends on it; with --steps those alone, so that what depends on them keeps the result that it has. An
item of a forEach is named by its number or by its name: 'pages[3]', 'test[linux, 2]'. Deadlines are fresh.

What has no result to keep runs in any case: a step that failed, was cancelled or never began, and where one item of a
step runs again, all of its items that failed. A loop whose failures the flow goes on after has a result: with --from
and --steps it keeps it unless it is named.

With --input some values of the input are others, with --flow the text of the flow is. If a step that keeps its result
differs in the new text, or used a value that differs, nothing is started, and the differences are told.`,
		Example: "  pawl run rerun order-42 --failed --follow\n" +
			"  pawl run rerun order-42 --from render --follow\n" +
			"  pawl run rerun order-42 --from render --input size=large",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !oneOf(failed, from != "", len(steps) > 0) {
				return usage("say which steps: --failed, --from STEP or --steps A,B")
			}
			req := api.RestartRequest{Steps: wholeNames(steps), From: from, Failed: failed}
			if file != "" || len(input) > 0 {
				return a.againWith(cmd.Context(), args[0], req, changedBy{file, input, &src}, follow)
			}
			return a.repeat(cmd.Context(), args[0], follow, req)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "carry it out at once, with the live view")
	cmd.Flags().BoolVar(&failed, "failed", false, "all steps and items that failed, and everything that depends on "+
		"them")
	cmd.Flags().StringVar(&from, "from", "", "this step and everything that depends on it")
	cmd.Flags().StringSliceVar(&steps, "steps", nil, "these steps and items only")
	cmd.Flags().StringVar(&file, "flow", "", "with this file, another text of the flow")
	cmd.Flags().StringArrayVar(&input, "input", nil, "with another value of the input: name=value, or @file.json; "+
		"repeatable")
	src.flags(cmd.Flags())
	a.completeFor(cmd, 1)
	return cmd
}

// oneOf reports whether exactly one is true.
func oneOf(all ...bool) bool {
	n := 0
	for _, one := range all {
		if one {
			n++
		}
	}
	return n == 1
}

// wholeNames joins the names of items again that were split at a comma within their brackets: test[linux, 2].
func wholeNames(parts []string) []string {
	var names []string
	within := false
	for _, part := range parts {
		if last := len(names) - 1; within {
			names[last] += "," + part
		} else {
			names = append(names, part)
		}
		name := names[len(names)-1]
		within = strings.Contains(name, "[") && !strings.HasSuffix(name, "]")
	}
	return names
}

// checkSteps checks that the steps to run again are steps of the flow.
func checkSteps(r *api.Run, req api.RestartRequest) error {
	names := make([]string, len(r.Plan))
	for i, plan := range r.Plan {
		names[i] = plan.Name
	}
	again := req.Steps
	if req.From != "" {
		again = []string{req.From}
	}
	for _, name := range again {
		base, _, _ := strings.Cut(name, "[") // pages[3]: an item of a forEach
		if !slices.Contains(names, base) {
			return usage("the flow has no step %q; %s", name, nearestStep(name, names))
		}
	}
	return nil
}

// repeat starts a run like an earlier one.
func (a runVerbs) repeat(ctx context.Context, name string, follow bool, req api.RestartRequest) error {
	var earlier *api.Run
	err := a.reading(ctx, func(ctx context.Context, svc api.Service) (err error) {
		if earlier, err = a.findCarried(ctx, svc, name); err != nil {
			return err
		}
		if err := service.Repeatable(earlier); err != nil {
			return err
		}
		return checkSteps(earlier, req)
	})
	if err != nil {
		return err
	}
	req.Actor, req.Reason = a.who(), a.reason
	begin := func(ctx context.Context, svc api.Service) (api.Started, error) {
		started, err := svc.Restart(ctx, earlier.Run, req)
		return started, startError(err, earlier.WorkflowID)
	}
	return a.startRun(ctx, begin, follow, a.chooseTelling(false, false))
}
