package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (a *app) resumeCommand() *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use: "resume [RUN…]", Short: "Carry open runs on to their end",
		Long: `Carries the open runs of the database on, all of them or those named, and shows them like "pawl run" does, with the same exit
statuses; of several runs the worst counts. What is left open by a stop, a crash or a kill -9 goes on where it was: no finished step runs
again, and every deadline is where it was.

A run that somebody paused waits until it is resumed: pawl run resume RUN.`,
		Example: "  pawl resume\n  pawl resume order-42",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resume(cmd.Context(), args, a.chooseTelling(asJSON, quiet))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object an event")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print the outputs and nothing else")
	return cmd
}

func (a *app) resume(ctx context.Context, names []string, how telling) error {
	ids, err := a.toResume(ctx, names)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return a.tellNothing(ctx, how)
	}
	m, err := a.start(ctx, true)
	if err != nil {
		return err
	}
	return a.carry(ctx, m, ids, how)
}

// tellNothing says that there is nothing to carry on: all runs have ended, or wait for their operator.
func (a *app) tellNothing(ctx context.Context, how telling) error {
	if how == tellJSON {
		return nil
	}
	return a.reading(ctx, func(ctx context.Context, h reader) error {
		paused, err := h.List(ctx, journal.Query{Phases: []core.RunPhase{core.RunPaused}, Limit: 1})
		if err != nil {
			return err
		}
		open, err := h.List(ctx, journal.Query{Phases: goingOn, Limit: 1})
		switch {
		case err != nil:
			return err
		case len(paused.Runs) > 0:
			a.say("Nothing goes on: what is open is paused, such as run %s; let it go on with pawl run resume.", live.Short(paused.Runs[0].ID))
		case len(open.Runs) > 0:
			a.say("Nothing goes on here: what is open is a Go program's, such as run %s.", live.Short(open.Runs[0].ID))
		default:
			a.say("Nothing is open: all runs have ended.")
		}
		return nil
	})
}

// toResume finds the runs to carry on. It only reads, so that a mistyped name starts nothing.
func (a *app) toResume(ctx context.Context, names []string) (ids []core.RunID, err error) {
	err = a.reading(ctx, func(ctx context.Context, h reader) error {
		if len(names) == 0 {
			ids, err = openRuns(ctx, h)
			return err
		}
		for _, name := range names {
			id, err := findRun(ctx, h, name)
			if err != nil {
				return err
			}
			t, _, err := loadOurs(ctx, h, id)
			if err != nil {
				return err
			}
			if t.Run.PausedAt != 0 {
				fmt.Fprintf(a.Err, "pawl: run %s is paused, nothing of it starts; leave it, then let it go on with: %s --follow\n", live.Short(id), howOn(t.Run))
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

// goingOn are the phases of runs that somebody carries on.
var goingOn = []core.RunPhase{core.RunPending, core.RunRunning, core.RunWaiting}

// openRuns lists the runs that go on, the oldest first; child runs belong to their parents, and what a Go program alone can
// carry on to that. A paused run waits for its operator, and alone it keeps nobody busy.
func openRuns(ctx context.Context, h histories) ([]core.RunID, error) {
	var rows []journal.RunRow
	known := map[core.DefinitionID]carrier{}
	functions := false
	q := journal.Query{Phases: goingOn, Limit: 500}
	for more := true; more; {
		page, err := h.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, row := range page.Runs {
			by, ok := known[row.Definition]
			if !ok {
				if by, err = carrierOf(ctx, h, row.Definition); err != nil {
					return nil, err
				}
				known[row.Definition] = by
			}
			functions = functions || by.function
			if by.here && row.Parent == (core.RunID{}) {
				rows = append(rows, row)
			}
		}
		if more = page.More && len(page.Runs) > 0; more {
			q.After = page.Runs[len(page.Runs)-1].ID
		}
		if more && len(rows) > maxFollowed {
			return nil, fmt.Errorf("more than %d runs are open; name those to carry on and to watch (the others go on as well)", maxFollowed)
		}
	}
	var ids []core.RunID
	for _, row := range slices.Backward(rows) {
		if functions && row.WorkflowID != "" { // a schedule may wait for its end
			if _, _, err := loadOurs(ctx, h, row.ID); errors.As(err, new(*theirsError)) {
				continue
			}
		}
		ids = append(ids, row.ID)
	}
	return ids, nil
}

// carrier says who carries on the runs of a definition.
type carrier struct {
	here     bool // this command can
	function bool // it is a Go function
}

func carrierOf(ctx context.Context, h histories, id core.DefinitionID) (carrier, error) {
	d, err := h.Definition(ctx, id)
	if err != nil {
		return carrier{}, err
	}
	c, err := readShown(d)
	return carrier{here: err != nil || c.ours() == nil, function: d.Kind == journal.KindGo}, nil // what cannot be read the engine reports
}

// maxFollowed bounds the runs that one command follows.
const maxFollowed = 5000
