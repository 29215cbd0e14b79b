package service

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/trail"
)

// How many attempts of each step are forecast.
const (
	defaultForecast = 20
	maxForecast     = 100
)

func (r *reads) Forecast(ctx context.Context, name string, q api.ForecastRequest) (out *api.Run, err error) {
	if q.Attempts == 0 {
		q.Attempts = defaultForecast
	}
	if q.Attempts < 0 || q.Attempts > maxForecast {
		return nil, invalid(nil, "forecast: attempts is %d; it is from 1 to %d", q.Attempts, maxForecast)
	}
	if q.FailsAfter < 0 || q.FailsAfter > 0 && q.Hang {
		return nil, invalid(nil, "forecast: give either failsAfter, a length of time, or hang")
	}
	entries, k, err := r.recorded(ctx, name)
	if err != nil {
		return nil, err
	}
	id := entries[0].Run
	// The forecast has its own run: a panic of the run's code, such as its definition's, becomes an error.
	f := &followed{id: id, kind: k.kind, workflow: k.workflow}
	err = f.locked(func() error {
		f.trail = trail.Of(id, k.workflow.Definition, entries)
		f.trail.Shared = r.shared
		if err := f.foresee(q, entries, r.now()); err != nil {
			return err
		}
		out = r.snapshot(ctx, f)
		return nil
	})
	if err != nil {
		return nil, wrap(err)
	}
	return out, nil
}

// foresee plays the run on and folds what would come.
func (f *followed) foresee(q api.ForecastRequest, entries []core.Entry, now core.Time) error {
	run := core.Restore(f.id, f.workflow.Definition, entries)
	var first core.Input
	if q.Operation != nil {
		op, err := operation(*q.Operation)
		if err != nil {
			return err
		}
		if q.Operation.Step != "" {
			step, known := core.StepNamed(run, q.Operation.Step)
			if !known {
				return noSuchStep(f.id, q.Operation.Step)
			}
			op.Step = step.ID
		}
		first = op
	}
	act := core.Act{End: "error", Run: time.Duration(q.FailsAfter), Message: "assumed to fail"}
	if q.Hang {
		act.End = "hang"
	}
	err := core.Forecast(run, first, act, q.Attempts, now, func(e core.Entry) { f.trail.Fold(e) })
	if q.Operation == nil {
		return err
	}
	return refused(engine.Refused(q.Operation.Operation, f.id, err))
}
