package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

// forecastFlags are the assumptions of a forecast.
type forecastFlags struct {
	failsAfter string
	hang       bool
	attempts   int
}

func (f *forecastFlags) request() (q api.ForecastRequest, err error) {
	q.Hang, q.Attempts = f.hang, f.attempts
	if f.failsAfter != "" {
		d, err := parseDuration(f.failsAfter)
		if err != nil {
			return q, usage("--fails-after: %w", err)
		}
		q.FailsAfter = api.Duration(d)
	}
	if f.hang && f.failsAfter != "" {
		return q, usage("give --fails-after or --hang, not both")
	}
	return q, nil
}

func (a runVerbs) runForecastCommand() *cobra.Command {
	var f forecastFlags
	cmd := &cobra.Command{
		Use: "forecast RUN", Short: "Show what a run will come to if its attempts fail and nobody acts",
		Args: cobra.ExactArgs(1),
		Long: `Shows the run as it will be when its open steps have ended: every attempt to come, with the very delays,
and the deadline that ends them. It assumes that each attempt fails, at once unless a flag says otherwise. What begins
after these steps is left out. Nothing happens to the run.

To see what an operation would change, give --forecast to pawl run extend or pawl step set-policy.`,
		Example: "  pawl run forecast @last --fails-after 20s",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := f.request()
			if err != nil {
				return err
			}
			return a.forecast(cmd.Context(), args[0], q)
		},
	}
	cmd.Flags().StringVar(&f.failsAfter, "fails-after", "", "how long each attempt runs before it fails")
	cmd.Flags().BoolVar(&f.hang, "hang", false, "attempts hang until a limit ends them")
	cmd.Flags().IntVar(&f.attempts, "attempts", 0, "how many attempts of each step to show at most (default 20)")
	a.completeFor(cmd, 1)
	return cmd
}

// forecast shows the expected course of a run.
func (a *app) forecast(ctx context.Context, run string, q api.ForecastRequest) error {
	return a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		r, err := svc.Forecast(ctx, run, q)
		if err != nil {
			return err
		}
		if a.structured() {
			return a.print(r)
		}
		does := "fails at once"
		switch {
		case q.Hang:
			does = "hangs until a limit ends it"
		case q.FailsAfter > 0:
			does = fmt.Sprintf("fails after %s", q.FailsAfter)
		}
		after := ""
		if q.Operation != nil {
			after = " after that operation, which was not done"
		}
		a.say("What it would come to%s, if each attempt %s:\n", after, does)
		a.lines(live.Show(r, api.At(a.runsNow(ctx)), a.textWidth(), live.Showing{}))
		return nil
	})
}

// forecastFlag adds --forecast to a verb.
func forecastFlag(cmd *cobra.Command, w *operation) {
	cmd.Flags().BoolVar(&w.forecast, "forecast", false, "change nothing; show what the run would come to afterwards")
}
