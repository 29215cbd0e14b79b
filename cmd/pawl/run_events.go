package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/journal/sqlite"
)

func (a *app) runEventsCommand() *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use: "events RUN", Short: "Print everything that happened in a run", Args: cobra.ExactArgs(1),
		Long: `Prints a run's history, one event a line: seconds since the run was created, type, step, and what happened. With --json, one
JSON object a line; with -o json, a list.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, h reader) error {
				id, err := findRun(ctx, h, args[0])
				if err != nil {
					return err
				}
				how := tellPlain
				if asJSON {
					how = tellJSON
				}
				if follow {
					return a.watch(ctx, h, id, how)
				}
				return a.events(ctx, h, id, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on until the run has ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	a.completeFor(cmd, 1)
	return cmd
}

func (a *app) events(ctx context.Context, h histories, id core.RunID, lines bool) error {
	entries, err := h.Entries(ctx, id)
	if err != nil {
		return noSuchRun(id.String(), err)
	}
	c, err := definitionOf(ctx, h, entries[0])
	if err != nil {
		return err
	}
	t := trail.New(id, c.def)
	named := func(core.Event) string { return "" }
	if w := wordsOf(ctx, h, t, c.bundle); w != nil && w.Event != nil {
		named = w.Event
	}
	all := []wordedEvent{}
	for _, e := range entries {
		for _, ev := range t.Fold(e) {
			told := wordedEvent{ev, named(ev)}
			switch {
			case lines:
				text, err := json.Marshal(told)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "%s\n", text)
			case a.structured():
				all = append(all, told)
			case told.name != "":
				fmt.Fprintf(a.Out, "%s  [%s]\n", trail.Plain(ev), told.name)
			default:
				fmt.Fprintln(a.Out, trail.Plain(ev))
			}
		}
	}
	if a.structured() && !lines {
		return a.print(all)
	}
	return nil
}

func (a *app) runWatchCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "Watch a run that another process carries", Args: cobra.ExactArgs(1),
		Long: `Shows a run as "pawl run FILE" does, while another process carries it. It only reads: Ctrl-C ends the watching, not the run. The
exit status is the run's.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, h reader) error {
				id, err := findRun(ctx, h, args[0])
				if err != nil {
					return err
				}
				return a.watch(ctx, h, id, a.chooseTelling(asJSON, false))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object an event")
	a.completeFor(cmd, 1)
	return cmd
}

// watch follows a run that another process carries.
func (a *app) watch(ctx context.Context, h reader, id core.RunID, how telling) error {
	t, err := loadTrail(ctx, h, id)
	if err != nil {
		return err
	}
	f := a.newFollower(h, nil, how)
	if p, err := a.where(); err == nil && !t.Run.Phase.Closed() {
		if _, held := sqlite.Held(p.path); !held {
			f.note = "nothing carries this run at present; go on with: pawl resume " + live.Short(id)
			if how != tellLive {
				fmt.Fprintf(a.Err, "pawl: %s\n", f.note)
			}
		}
	}
	switch err := f.follow(ctx, []core.RunID{id}); {
	case errors.Is(err, errLeft):
		f.leave()
		return &statusError{status: exitCancelled}
	case err != nil:
		return err
	}
	f.conclude()
	if status := f.status(); status != exitOK {
		return &statusError{status: status}
	}
	return nil
}
