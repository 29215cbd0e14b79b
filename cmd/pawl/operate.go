package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/service"
)

// operation is an operation that a person asks for.
type operation struct {
	run    string
	op     api.Operation
	done   string // the word for its success: "paused"
	follow bool

	forecast bool // a forecast is wanted, no change
}

// operate applies an operation to the database directly. With follow it carries the run on afterwards.
func (a *app) operate(ctx context.Context, w operation) error {
	w.op.Actor, w.op.Reason = a.who(), a.reason
	if w.forecast {
		return a.forecast(ctx, w.run, api.ForecastRequest{Operation: &w.op})
	}
	t, err := a.find(ctx, w)
	if err != nil {
		return err
	}
	m, err := a.start(ctx, w.follow, t.top)
	if err != nil {
		return err
	}
	if err := m.svc.Operate(ctx, t.id, w.op); err != nil {
		return errors.Join(err, m.close())
	}
	if w.follow {
		return a.carry(ctx, m, []string{t.id}, a.chooseTelling(false, false))
	}
	r, err := m.svc.Run(ctx, t.id)
	closeErr := m.close()
	if err := errors.Join(err, closeErr); err != nil {
		return err
	}
	return a.tellDone(w, t, r)
}

// target is the run that an operation or an event is for.
type target struct {
	id      string
	top     core.RunID // the top run of its family
	program error      // why only a Go program can carry it on; nil: this command can
}

// find resolves the run and the step before anything is opened for writing: a mistyped name changes nothing.
func (a *app) find(ctx context.Context, w operation) (t target, err error) {
	err = a.reading(ctx, func(ctx context.Context, svc api.Service) error {
		r, err := a.findRun(ctx, svc, w.run)
		if err != nil {
			return err
		}
		t.id = r.Run
		a.told[r.Run] = r.Events // earlier events are not printed again
		err = a.carriedHere(ctx, svc, r)
		if errors.As(err, new(*workflows.ReadOnlyError)) && !w.follow {
			t.program, err = err, nil
		}
		if err == nil {
			t.top, err = service.TopOf(ctx, svc, r)
		}
		if err == nil && w.op.Step != "" {
			_, err = findStep(r, w.op.Step)
		}
		return err
	})
	return t, err
}

// findCarried reads a run that this command can carry on.
func (a *app) findCarried(ctx context.Context, svc api.Service, name string) (*api.Run, error) {
	r, err := svc.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	return r, a.carriedHere(ctx, svc, r)
}

func (a *app) tellDone(w operation, t target, r *api.Run) error {
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
	if w.op.Operation == api.OpCancel && !r.Phase.Closed() {
		w.done = "is being cancelled"
	}
	a.say("%s: %s; the run is %s", about, strings.TrimPrefix(w.done, ", "),
		strings.ReplaceAll(string(r.Phase), "_", " "))
	a.sayHowOn(t, r)
	return nil
}

// sayHowOn prints how an open run goes on: the command that carries it on, or why only its program does.
func (a *app) sayHowOn(t target, r *api.Run) {
	switch {
	case r.Phase.Closed():
	case t.program != nil:
		a.say("it goes on when its program opens the database: %v", t.program)
	case a.joined && r.PausedAt == 0:
		a.say("watch it: pawl run watch %s", live.Short(r.Run))
	default:
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

// lastMoves returns the deadlines that the last operation set.
func lastMoves(r *api.Run) []api.Move {
	if n := len(r.Operations); n > 0 {
		return r.Operations[n-1].Deadlines
	}
	return nil
}

// followFlag adds --follow: an operation that makes work due then also carries the run on.
func followFlag(cmd *cobra.Command, w *operation) {
	cmd.Flags().BoolVar(&w.follow, "follow", false, "carry the run on at once, with the live view")
}
