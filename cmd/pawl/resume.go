package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/service"
)

func (a resumeVerbs) resumeCommand() *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use: "resume [RUN…]", Short: "Carry open runs on to their end",
		Long: `Carries the open runs of the database on, all of them or those named, and shows them like "pawl run"
does, with the same exit statuses; of several runs the worst counts. What is left open by a stop, a crash or a kill -9
continues where it was: no finished step runs again, and every deadline is where it was.

Only these runs are carried on, with their children and the runs that follow them. Other open runs are left alone: their
steps do not start and their limits do not fire until you resume them.

A run that somebody paused waits until it is resumed: pawl run resume RUN.`,
		Annotations: map[string]string{following: "yes"},
		Example:     "  pawl resume\n  pawl resume order-42",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resume(cmd.Context(), args, a.chooseTelling(asJSON, quiet))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object an event")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "print the outputs and nothing else")
	return cmd
}

func (a resumeVerbs) resume(ctx context.Context, names []string, how telling) error {
	ids, tops, err := a.toResume(ctx, names)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return a.tellNothing(ctx, how)
	}
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) error { return a.checkResumed(ctx, svc, ids) })
	if err != nil {
		return err
	}
	if how != tellQuiet && how != tellJSON { // these runs make no progress yet
		err := a.reading(ctx, func(ctx context.Context, svc api.Service) error {
			a.warnOfOpenTasks(ctx, svc, ids)
			return nil
		})
		if err != nil {
			return err
		}
	}
	m, err := a.start(ctx, true, tops...)
	if err != nil {
		return err
	}
	return a.carry(ctx, m, ids, how)
}

// tellNothing says that there is nothing to carry on: all runs have ended, or wait for their operator.
func (a resumeVerbs) tellNothing(ctx context.Context, how telling) error {
	if how == tellJSON {
		return nil
	}
	return a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		paused, err := svc.Runs(ctx, api.Query{Phases: []api.RunPhase{api.RunPaused}, Limit: 1})
		if err != nil {
			return err
		}
		open, err := svc.Runs(ctx, api.Query{Phases: goingOn, Limit: 1})
		switch {
		case err != nil:
			return err
		case len(paused.Runs) > 0:
			a.say("Nothing goes on: what is open is paused, such as run %s; let it go on with pawl run resume.",
				live.Short(paused.Runs[0].Run))
		case len(open.Runs) > 0:
			a.say("Nothing goes on here: what is open is a Go program's, such as run %s.", live.Short(open.Runs[0].Run))
		default:
			a.say("Nothing is open: all runs have ended.")
		}
		return nil
	})
}

// toResume finds the runs to carry on. It only reads, so that a mistyped name starts nothing.
func (a *app) toResume(ctx context.Context, names []string) (ids []string, tops []core.RunID, err error) {
	add := func(ctx context.Context, svc api.Service, r *api.Run) error {
		top, err := service.TopOf(ctx, svc, r)
		if !slices.Contains(ids, r.Run) {
			ids, tops = append(ids, r.Run), append(tops, top)
		}
		return err
	}
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		if len(names) == 0 {
			return a.openRuns(ctx, svc, add)
		}
		for _, name := range names {
			r, err := a.findCarried(ctx, svc, name)
			if api.CodeOf(err) == api.CodeNotFound { // the name of a schedule stands for it and its open runs
				if s, missing := svc.Run(ctx, schedule.Prefix+name); missing == nil && !s.Phase.Closed() {
					r, err = s, nil
				}
			}
			if err != nil {
				return err
			}
			if r.Workflow == schedule.Workflow {
				more, families, err := familyOf(ctx, svc, r)
				if err != nil {
					return err
				}
				ids, tops = append(ids, more...), append(tops, families...)
				continue
			}
			if r.PausedAt != 0 {
				fmt.Fprintf(a.Err, "pawl: run %s is paused, nothing of it starts; leave it, then let it go on with: "+
					"%s --follow\n", live.Short(r.Run), howOn(r))
			}
			if err := add(ctx, svc, r); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, tops, err
}

// goingOn are the phases of open runs that are not paused.
var goingOn = []api.RunPhase{api.RunPending, api.RunRunning, api.RunWaiting}

// openRuns adds the runs to carry on, the oldest first. It leaves out child runs, which their parents stand for, runs
// that only a Go program can carry on, and paused runs, which wait for their operator.
func (a *app) openRuns(
	ctx context.Context, svc api.Service, add func(context.Context, api.Service, *api.Run) error,
) error {
	var rows []api.RunSummary
	known := map[string]carrier{} // the carriers by definition
	functions := false
	q := api.Query{Phases: goingOn, Limit: 500}
	for more := true; more; {
		page, err := svc.Runs(ctx, q)
		if err != nil {
			return err
		}
		for _, row := range page.Runs {
			by, ok := known[row.Definition]
			if !ok {
				by = a.carrierOf(ctx, svc, row.Definition)
				known[row.Definition] = by
			}
			functions = functions || by.function
			if by.here && row.Parent == "" {
				rows = append(rows, row)
			}
		}
		more, q.Cursor = page.Next != "", page.Next
		if more && len(rows) > maxFollowed {
			return fmt.Errorf("more than %d runs are open; name those to carry on", maxFollowed)
		}
	}
	for _, row := range slices.Backward(rows) {
		r, err := svc.Run(ctx, row.Run)
		if err == nil && functions && row.WorkflowID != "" { // a schedule may wait for its end
			if err = a.carriedHere(ctx, svc, r); errors.As(err, new(*workflows.ReadOnlyError)) {
				continue
			}
		}
		if err == nil {
			err = add(ctx, svc, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// carrier says who carries on the runs of a definition.
type carrier struct {
	here     bool // this command can, or it cannot be read: then the engine says why
	function bool // a Go function decides
}

func (a *app) carrierOf(ctx context.Context, svc api.Service, definition string) carrier {
	c, err := a.definitionOf(ctx, svc, definition)
	if err != nil {
		return carrier{here: true}
	}
	return carrier{here: c.ReadOnly() == nil, function: c.Flow == nil}
}

// maxFollowed bounds the runs that one command follows.
const maxFollowed = 5000
