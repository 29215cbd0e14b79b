package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	historyfile "github.com/pawl-dev/pawl/internal/history"
)

// Replay calls a workflow's body with a recorded history, as [Engine.History] returns it or pawl run history prints it,
// and nothing else: no step's function runs. It returns a *ChangedError if the code no longer decides what the history
// holds, an *UnreadableError if it cannot read a value there, a *TaskTimeoutError if the body blocks, and nil once the
// body has been through all that is recorded and waits for more. Of the configuration it needs the codec that the
// history was written with, and the task limit.
//
// A cancel that the code has lost is a change, and so is one that it has got before recorded calls of the same branch.
// An engine goes on with both: the recorded steps are the same, and a cancel ends what is open when it is made. Cancels
// are not compared in a run that an operator has retried or changed.
func Replay(ctx context.Context, cfg Config, w Definition, history []byte) error {
	if ctx == nil {
		return errNilContext
	}
	if err := missingDefinition(w); err != nil {
		return err
	}
	entries, err := historyfile.Read(history)
	if err != nil {
		return invalid(err, "replay")
	}
	cfg = cfg.withDefaults()
	r := &rehearsal{ended: make(chan struct{})}
	cfg.Log, cfg.Observer, cfg.Intercept = slog.New(slog.DiscardHandler), Observer{BodyStopped: r.stopped}, nil
	h := newHostFor(ctx, cfg, true)
	h.bodies.Attach(r)
	defer h.bodies.Close()
	if err := h.register(w.definition()); err != nil {
		return err
	}
	if w.definition().external {
		return invalid(errors.New("another program has the workflow's function"), "replay of %q", w.Name())
	}
	if w.definition().document != nil {
		return invalid(errors.New("a flow has no body: its runs keep the text they started with"), "replay of %q",
			w.Name())
	}
	id := entries[0].Run
	state := core.Restore(id, h.bodies.Definition(w.Name()), entries)
	if state.Workflow != w.Name() {
		return fmt.Errorf("pawl: replay: the history is of workflow %q, not of %q", state.Workflow, w.Name())
	}
	h.bodies.Consult(engine.NewsOf(state, nil))
	select {
	case <-r.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.err
}

// rehearsal takes the engine's place when a body is only replayed: it ends when all branches of the body wait, or the
// body has returned.
type rehearsal struct {
	once  sync.Once
	ended chan struct{}
	err   error
}

func (r *rehearsal) end(err error) {
	r.once.Do(func() {
		r.err = err
		close(r.ended)
	})
}

// Do takes what the body decides. What it decides while branches still compute is not answered, and the body goes on.
func (r *rehearsal) Do(_ core.RunID, _ *engine.Body, inputs []core.Input, _ func(error)) {
	for _, in := range inputs {
		decided, _ := in.(core.Commands)
		closes := slices.ContainsFunc(decided.Commands, func(cmd core.Command) bool {
			_, ok := cmd.(core.Close)
			return ok
		})
		if decided.Waits || closes {
			r.end(nil)
		}
	}
}

func (r *rehearsal) Consult(core.RunID)                         {}
func (r *rehearsal) Begin(core.RunID, core.StepID)              {}
func (r *rehearsal) Rematch()                                   {}
func (r *rehearsal) Report(core.RunID, core.Input)              {}
func (r *rehearsal) Confirm(core.RunID, core.Input, func(bool)) {}

func (r *rehearsal) stopped(o client.RunObservation) { r.end(o.Err) }
