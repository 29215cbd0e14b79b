package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a runVerbs) runEventsCommand() *cobra.Command {
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use: "events RUN", Short: "Print everything that happened in a run", Args: cobra.ExactArgs(1),
		Long: `Prints a run's history, one event a line: seconds since the run was created, type, step, and what
happened. With --json, one JSON object a line; with -o json, a list. What of it was sent to webhooks shows
"pawl webhook deliveries --run RUN".`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				r, err := svc.Run(ctx, args[0])
				if err != nil {
					return err
				}
				how := tellPlain
				if asJSON {
					how = tellJSON
				}
				if follow {
					return a.watch(ctx, svc, r, how)
				}
				return a.events(ctx, svc, r, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on until the run has ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	a.completeFor(cmd, 1)
	return cmd
}

// events prints the events so far.
func (a *app) events(ctx context.Context, svc api.Service, r *api.Run, lines bool) error {
	all := []api.Event{}
	err := a.eventsUpTo(ctx, svc, r, func(ev api.Event) error {
		switch {
		case lines:
			text, err := json.Marshal(ev)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s\n", text)
		case a.structured():
			all = append(all, ev)
		case ev.Dialect != "":
			fmt.Fprintf(a.Out, "%s  [%s]\n", live.Plain(ev), ev.Dialect)
		default:
			fmt.Fprintln(a.Out, live.Plain(ev))
		}
		return nil
	})
	if err == nil && a.structured() && !lines {
		return a.print(all)
	}
	return err
}

// errEnough ends the watching of a run that goes on.
var errEnough = errors.New("enough")

// eventsUpTo calls fn with the events that a run had when it was read.
func (a *app) eventsUpTo(ctx context.Context, svc api.Service, r *api.Run, fn func(api.Event) error) error {
	if r.Events == 0 {
		return nil
	}
	err := svc.Watch(ctx, r.Run, 0, func(ev api.Event) error {
		if err := fn(ev); err != nil {
			return err
		}
		if ev.Seq >= r.Events {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (a runVerbs) runWatchCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "Watch a run that another process carries", Args: cobra.ExactArgs(1),
		Annotations: map[string]string{following: "yes"},
		Long: `Shows a run as "pawl run FILE" does, while another process carries it. It only reads: Ctrl-C ends the
watching, not the run. The exit status is the run's.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				r, err := svc.Run(ctx, args[0])
				if err != nil {
					return err
				}
				return a.watch(ctx, svc, r, a.chooseTelling(asJSON, false))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object an event")
	a.completeFor(cmd, 1)
	return cmd
}

// watch follows a run that another process carries.
func (a *app) watch(ctx context.Context, svc api.Service, r *api.Run, how telling) error {
	f := a.newFollower(svc, nil, how)
	if r.Resting && how != tellLive {
		fmt.Fprintf(a.Err, "pawl: nothing carries this run at present; go on with: %s\n", howOn(r))
	}
	return a.concluded(f, f.follow(ctx, []string{r.Run}))
}

// concluded prints how followed runs ended that another process carries on. The error carries the exit status.
func (a *app) concluded(f *follower, err error) error {
	switch {
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

func (a runVerbs) runHistoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history RUN", Short: "Print a run's history for a replay", Args: cobra.ExactArgs(1),
		Long: `Prints all that is recorded of a run as one JSON document: each entry as it is stored, and the events
that it stands for. The document is the same each time, and later versions of Pawl read it.

Keep it in a file next to a Go program's tests: pawltest.Replay checks that the program's code of today still makes the
decisions that the history holds. Inputs and results are in it as the program's codec wrote them. What happened is
easier to read with "pawl run events".`,
		Example: "  pawl run history order-42 > testdata/order-42.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reading(cmd.Context(), func(ctx context.Context, svc api.Service) error {
				text, err := svc.History(ctx, args[0])
				if err != nil {
					return err
				}
				if a.output == formatYAML {
					return a.print(json.RawMessage(text))
				}
				_, err = a.Out.Write(text)
				return err
			})
		},
	}
	a.completeFor(cmd, 1)
	return cmd
}
