package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
)

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
					before, err := api.RunBefore(ctx, svc, one)
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

func (a runVerbs) tellDiff(one, other *api.Run, full bool) error {
	all := api.Differences(one, other)
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
