package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

// operation is an operation that a person asks for.
type operation struct {
	run    string
	op     api.Operation
	done   string // what to say when it is done: "paused"
	follow bool
}

// operate applies an operation to the database directly. With follow it carries the run on afterwards.
func (a *app) operate(ctx context.Context, w operation) error {
	id, err := a.find(ctx, w)
	if err != nil {
		return err
	}
	m, err := a.start(ctx, w.follow)
	if err != nil {
		return err
	}
	w.op.Actor, w.op.Reason = a.who(), a.reason
	if err := m.svc.Operate(ctx, id, w.op); err != nil {
		return errors.Join(err, m.close())
	}
	if w.follow {
		return a.carry(ctx, m, []string{id}, a.chooseTelling(false, false))
	}
	r, err := m.svc.Run(ctx, id)
	closeErr := m.close()
	if err := errors.Join(err, closeErr); err != nil {
		return err
	}
	return a.tellDone(w, r)
}

// find resolves the run and the step before anything is opened for writing: a mistyped name changes nothing.
func (a *app) find(ctx context.Context, w operation) (id string, err error) {
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		r, err := a.findOperable(ctx, svc, w.run)
		if err != nil {
			return err
		}
		id = r.Run
		if w.op.Step != "" {
			_, err = findStep(r, w.op.Step)
		}
		return err
	})
	return id, err
}

// findOperable reads a run that this command can carry on or operate on.
func (a *app) findOperable(ctx context.Context, svc api.Service, name string) (*api.Run, error) {
	r, err := svc.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	return r, a.carriedHere(ctx, svc, r)
}

func (a *app) tellDone(w operation, r *api.Run) error {
	moves := lastMoves(r)
	if a.structured() {
		out := map[string]any{"run": r.Run, "operation": w.op.Operation, "phase": r.Phase}
		if w.op.Step != "" {
			out["step"] = w.op.Step
		}
		if len(moves) > 0 {
			out["deadlines"] = moves
		}
		return a.print(out)
	}
	about := "run " + live.Short(r.Run)
	if w.op.Step != "" {
		about = fmt.Sprintf("step %q of %s", w.op.Step, about)
	}
	for _, m := range moves {
		w.done += ", " + live.Moved(m)
	}
	a.say("%s: %s; the run is %s", about, strings.TrimPrefix(w.done, ", "),
		strings.ReplaceAll(string(r.Phase), "_", " "))
	a.sayHowOn(r)
	return nil
}

// sayHowOn prints the command that carries an open run on.
func (a *app) sayHowOn(r *api.Run) {
	if !r.Phase.Closed() && (!a.elsewhere || r.PausedAt != 0) {
		a.say("it goes on with: %s", howOn(r))
	}
}

// howOn returns the command that carries a run on.
func howOn(r *api.Run) string {
	if r.PausedAt != 0 {
		return "pawl run resume " + live.Short(r.Run)
	}
	return "pawl resume " + live.Short(r.Run)
}

// lastMoves are the deadlines that the last operation set.
func lastMoves(r *api.Run) []api.Move {
	if n := len(r.Operations); n > 0 {
		return r.Operations[n-1].Deadlines
	}
	return nil
}

// followFlag adds --follow: an operation that makes work due then carries the run on at once.
func followFlag(cmd *cobra.Command, w *operation) {
	cmd.Flags().BoolVar(&w.follow, "follow", false, "carry the run on at once, with the live view")
}
