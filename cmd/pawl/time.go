package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a timeVerbs) timeCommand() *cobra.Command {
	return noun("time", "Move the clock of pawl dev --virtual-time",
		"The clock of such a server stands until it is moved. What is due on the way happens, each thing at its\n"+
			"instant, so that days of retries, sleeps and deadlines pass in moments.",
		a.timeShowCommand(), a.timeMoveCommand())
}

func (a timeVerbs) timeShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show what the clock shows, and what is next", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClock(cmd.Context(), func(ctx context.Context, c api.Clock) (api.ClockState, error) {
				return c.Clock(ctx)
			})
		},
	}
}

func (a timeVerbs) timeMoveCommand() *cobra.Command {
	var by, to, most string
	var move api.ClockMove
	cmd := &cobra.Command{
		Use: "move", Short: "Move the clock forward", Args: cobra.NoArgs,
		Example: "  pawl time move --by 1h\n  pawl time move --next\n  pawl time move --end",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if move.By, err = lengthOf("--by", by); err != nil {
				return err
			}
			if move.AtMost, err = lengthOf("--at-most", most); err != nil {
				return err
			}
			if err := move.To.UnmarshalText([]byte(to)); err != nil {
				return usage("--to %w", err)
			}
			return a.withClock(cmd.Context(), func(ctx context.Context, c api.Clock) (api.ClockState, error) {
				return c.MoveClock(ctx, move)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&by, "by", "", "by this time: 1h30m")
	flags.StringVar(&to, "to", "", "to this instant: 2026-01-02T15:04:05Z")
	flags.BoolVar(&move.Next, "next", false, "to the next instant at which a run does something by itself")
	flags.BoolVar(&move.End, "end", false, "until nothing happens by itself any more")
	flags.StringVar(&most, "at-most", "", "--end: by this time at most (default 366d)")
	cmd.MarkFlagsOneRequired("by", "to", "next", "end")
	cmd.MarkFlagsMutuallyExclusive("by", "to", "next", "end")
	return cmd
}

// lengthOf reads a length of time; an empty text means none.
func lengthOf(flag, text string) (api.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := parseDuration(text)
	if err != nil || d <= 0 {
		return 0, usage("%s %q: write a length of time, such as 1h30m", flag, text)
	}
	return api.Duration(d), nil
}

// withClock calls fn with the clock of the server, or of the process that holds the database, and prints what it shows.
func (a timeVerbs) withClock(ctx context.Context, fn func(context.Context, api.Clock) (api.ClockState, error)) error {
	m, err := a.start(ctx, false)
	if err != nil {
		return err
	}
	if m.remote == nil {
		return errors.Join(errors.New("nothing carries the runs of this database on: start pawl dev --virtual-time"),
			m.close())
	}
	st, err := fn(ctx, m.remote)
	if err := errors.Join(err, m.close()); err != nil {
		return err
	}
	if a.structured() {
		return a.print(st)
	}
	a.say("it is %s", live.Local(st.Now))
	if st.Next != 0 {
		a.say("next: %s, in %s", live.Local(st.Next), duration.Format(st.Next.Sub(st.Now)))
	} else if st.Live == 0 {
		a.say("nothing happens by itself any more")
	}
	if st.Live > 0 {
		a.say("%s executing; the clock is stopped meanwhile", count(st.Live, "attempt"))
	}
	if st.More {
		a.say("the bound was reached: more is to come")
	}
	return nil
}
