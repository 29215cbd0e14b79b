package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

func (a eventVerbs) eventCommand() *cobra.Command {
	return noun("event", "Send events to runs", "", a.eventSendCommand())
}

func (a eventVerbs) eventSendCommand() *cobra.Command {
	var data, id string
	var follow, keep bool
	cmd := &cobra.Command{
		Use: "send RUN NAME", Short: "Send an event to a run", Args: cobra.ExactArgs(2),
		Long: `Delivers an event to an open run. A step that waits for it ends with the data as its output; an event
that nothing waits for yet is kept. A name that no step of the flow can wait for is refused. A second
delivery with the same --id changes nothing.

The body of a Go program takes the event when its program opens the database. It reads the data with the codec of its
program, and this command writes JSON.`,
		Example: "  pawl event send change-7 approved --data '{\"by\":\"ada\"}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			payload, err := a.readJSON("--data", data)
			if err != nil {
				return err
			}
			if args[1] == "" {
				return usage("the event has no name")
			}
			return a.send(cmd.Context(), args[0], api.SendRequest{
				Name: args[1], ID: id, Payload: payload, Keep: keep, Actor: a.who(), Reason: a.reason,
			}, follow)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "the event's data: JSON, or @file.json")
	cmd.Flags().StringVar(&id, "id", "", "the event's own id, for telling a second delivery")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the event although no step of the flow waits for that name")
	cmd.Flags().BoolVar(&follow, "follow", false, "carry the run on at once, with the live view")
	a.completeFor(cmd, 1)
	return cmd
}

// stateOf describes how a run is to which an event was delivered. The process that delivered it carries the run no
// longer; another one may.
func stateOf(r *api.Run, others bool) string {
	switch {
	case r.Phase.Closed():
		return "has ended: " + phaseWords(r.Phase)
	case r.Resting || !others:
		return "nothing carries"
	default:
		return "is " + phaseWords(r.Phase)
	}
}

// phaseWords returns a phase in words.
func phaseWords(p api.RunPhase) string { return strings.ReplaceAll(string(p), "_", " ") }

func (a *app) send(ctx context.Context, name string, s api.SendRequest, follow bool) error {
	t, err := a.find(ctx, operation{run: name, follow: follow})
	if err != nil {
		return err
	}
	m, err := a.start(ctx, follow, t.top)
	if err != nil {
		return err
	}
	if err := m.svc.Send(ctx, t.id, s); err != nil {
		return errors.Join(err, m.close())
	}
	if follow {
		return a.carry(ctx, m, []string{t.id}, a.chooseTelling(false, false))
	}
	r, err := m.svc.Run(ctx, t.id)
	if closed := m.close(); closed != nil {
		return closed
	}
	if err != nil { // the event has ended the run, and so the process that had the database
		if a.structured() {
			return a.print(map[string]any{"run": t.id, "event": s.Name})
		}
		a.say("event %q is delivered to run %s", s.Name, live.Short(t.id))
		return nil
	}
	if a.structured() {
		return a.print(map[string]any{"run": t.id, "event": s.Name, "phase": r.Phase})
	}
	others := a.joined || t.program != nil
	a.say("event %q is delivered to run %s, which %s", s.Name, live.Short(t.id), stateOf(r, others))
	a.sayHowOn(t, r)
	return nil
}
