package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/given"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a runVerbs) runShowCommand() *cobra.Command {
	var how live.Showing
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show a run: every step, every attempt, every deadline, and why it ended",
		Args: cobra.ExactArgs(1),
		Long: "Shows a run as it is on disk, whether or not another process carries it. What its steps printed is " +
			"shown by \"pawl run logs\".",
		Example: "  pawl run show @last",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				r, err := svc.Run(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(ctx, r, how)
			})
		},
	}
	cmd.Flags().BoolVar(&how.All, "all", false, "every item of a forEach, however many there are")
	cmd.Flags().BoolVar(&how.Full, "full", false, "values as long as they are")
	a.completeFor(cmd, 1)
	return cmd
}

func (a runVerbs) show(ctx context.Context, r *api.Run, how live.Showing) error {
	if a.structured() {
		return a.print(r)
	}
	a.lines(live.Show(r, api.At(a.runsNow(ctx)), a.textWidth(), how))
	if p, err := a.where(); err == nil && p.InFile() {
		if line := given.Line(p.LogDir(), r.Run); line != "" {
			a.say("%s", line)
		}
	}
	if r.Phase.Closed() {
		a.say("")
		a.lines(a.ending(r, how.Full))
	}
	return nil
}
