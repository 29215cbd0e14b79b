package pawl

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// HistoryEvents returns what has happened to a run, in order, without the first events: those up to the number after.
func (e *Engine) HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error) {
	r, err := onRun(ctx, e, id, func(run core.RunID) (*api.Run, error) { return e.explained.Run(ctx, run.String()) })
	if err != nil {
		return nil, missing(err, "history", id)
	}
	return eventsOf(ctx, e.explained, r, after)
}

// eventsOf returns the events that a run has had, without the first ones.
func eventsOf(ctx context.Context, from api.Reader, r *api.Run, after int) ([]client.HistoryEvent, error) {
	var out []client.HistoryEvent
	enough := errors.New("enough")
	if after >= r.Events {
		return nil, nil
	}
	err := from.Watch(ctx, r.Run, after, func(ev api.Event) error {
		out = append(out, client.Event(&ev))
		if ev.Seq >= r.Events {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, missing(err, "history", r.Run)
	}
	return out, nil
}

// missing names the run that was asked for in the error about one that is not there.
func missing(err error, op, id string) error {
	if errors.Is(err, ErrNotFound) {
		return &api.Error{Code: api.CodeNotFound, Op: op, ID: id, Message: "there is no such run", Err: err}
	}
	return err
}
