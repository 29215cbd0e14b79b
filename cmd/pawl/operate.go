package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// wish is an operation that a person asks for.
type wish struct {
	run    string
	step   string // "": on the run
	op     core.Operation
	done   string // what to say when it is done: "paused"
	follow bool
	// check looks at the run before, with a better answer than the machine's refusal; nil: nothing to check.
	check func(t *trail.Trail) error
}

// operate applies an operation to the database directly. With follow it carries the run on afterwards.
func (a *app) operate(ctx context.Context, w wish) error {
	id, err := a.find(ctx, &w)
	if err != nil {
		return err
	}
	m, err := a.start(ctx, w.follow)
	if err != nil {
		return err
	}
	w.op.Actor, w.op.Reason = a.who(), a.reason
	if err := m.Operate(ctx, id, w.op); err != nil {
		return errors.Join(plainly(err), m.close())
	}
	if w.follow {
		return a.carry(ctx, m, []core.RunID{id}, a.chooseTelling(false, false))
	}
	t, err := loadTrail(ctx, m, id)
	closeErr := m.close()
	if err := errors.Join(err, closeErr); err != nil {
		return err
	}
	return a.tellDone(w, t)
}

// find resolves the run and the step before anything is opened for writing: a mistyped name changes nothing.
func (a *app) find(ctx context.Context, w *wish) (id core.RunID, err error) {
	w.op.Step = core.NoStep
	err = a.reading(ctx, func(ctx context.Context, h reader) error {
		if id, err = findRun(ctx, h, w.run); err != nil {
			return err
		}
		t, _, err := loadOurs(ctx, h, id)
		if err != nil {
			return err
		}
		if w.step != "" {
			s, err := findStep(t, w.step)
			if err != nil {
				return err
			}
			w.op.Step = s.ID
		}
		if w.check != nil {
			return w.check(t)
		}
		return nil
	})
	return id, err
}

// plainly makes the engine's refusal a sentence: which run it is about the person has just typed.
func plainly(err error) error {
	var e *engine.Error
	if errors.As(err, &e) && e.Err != nil && (e.Code == engine.CodeConflict || e.Code == engine.CodeRunClosed || e.Code == engine.CodeInvalid || e.Code == engine.CodeNotFound) {
		text := fmt.Errorf("%s refused: %w", strings.ReplaceAll(e.Op, "_", " "), e.Err)
		if e.Code == engine.CodeInvalid {
			return asUsage(text)
		}
		return text
	}
	return err
}

func (a *app) tellDone(w wish, t *trail.Trail) error {
	r := t.Run
	if a.structured() {
		out := map[string]any{"run": r.ID.String(), "operation": w.op.Op.String(), "phase": r.Phase.String()}
		if w.step != "" {
			out["step"] = w.step
		}
		if moves := lastMoves(t); len(moves) > 0 {
			out["deadlines"] = movesOf(moves)
		}
		return a.print(out)
	}
	about := "run " + live.Short(r.ID)
	if w.step != "" {
		about = fmt.Sprintf("step %q of %s", w.step, about)
	}
	for _, m := range lastMoves(t) {
		w.done += ", " + m.String()
	}
	a.say("%s: %s; the run is %s", about, strings.TrimPrefix(w.done, ", "), strings.ReplaceAll(r.Phase.String(), "_", " "))
	a.sayHowOn(r)
	return nil
}

// sayHowOn says how a run that is open goes on.
func (a *app) sayHowOn(r *core.Run) {
	if !r.Phase.Closed() {
		a.say("it goes on with: %s", howOn(r))
	}
}

// howOn is the command with which a run goes on.
func howOn(r *core.Run) string {
	if r.PausedAt != 0 {
		return "pawl run resume " + live.Short(r.ID)
	}
	return "pawl resume " + live.Short(r.ID)
}

// lastMoves are the deadlines that the last operation set.
func lastMoves(t *trail.Trail) []trail.Move {
	if n := len(t.Operations); n > 0 {
		return t.Operations[n-1].Moves
	}
	return nil
}

// followFlag lets an operation that opens work go on with it at once.
func followFlag(cmd *cobra.Command, w *wish) {
	cmd.Flags().BoolVar(&w.follow, "follow", false, "carry the run on at once, with the live view")
}
