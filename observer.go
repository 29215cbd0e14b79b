package pawl

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// Observer is told what metrics and traces need; a function that is nil is not called. It gets more functions, and its
// arguments more fields, with later versions. Package pawlotel has one for OpenTelemetry.
//
// Its functions are called from several goroutines, one of which is the engine's own: they must not block, and must not
// call the engine. A panic of theirs is logged and changes nothing. What is told of runs and attempts is durable, and
// happened in this process. It is told once, or not at all where the process dies in that moment.
type Observer struct {
	// RunStarted tells that a run begins: one that waits for its start or for its queue does so later than it is
	// created. RunEnded tells that it has ended.
	RunStarted, RunEnded func(client.RunObservation)
	// AttemptStarted tells that a worker has taken an attempt of a step, or that a child run was started. AttemptHeld
	// tells that an attempt waits because of the limits of a queue or service, or no longer does. AttemptEnded tells
	// how an attempt ended, and whether another one follows.
	AttemptStarted, AttemptHeld, AttemptEnded func(client.AttemptObservation)
	// BodyStopped tells of a body that cannot go on: of its run the ID, and Err; see [Engine.Problem].
	BodyStopped func(client.RunObservation)
	// TimerFired tells that the deadline, sleep or retry of a run that was due is dealt with. The difference is how
	// late that is. After a standstill of the program it is as long as that.
	TimerFired func(due, fired time.Time)
	// Committed tells that the journal has taken a batch of entries, and how long that took.
	Committed func(took time.Duration, entries, bytes int)
}

// observed tells an observer what it wants to hear of an engine.
func (h *host) observed(o *Observer) engine.Observer {
	var out engine.Observer
	if o.RunStarted != nil || o.RunEnded != nil || o.AttemptStarted != nil || o.AttemptHeld != nil ||
		o.AttemptEnded != nil {
		out.Recorded = func(e *engine.Observation) { h.guardObserver(e.ID, func() { o.recorded(e) }) }
	}
	if o.TimerFired != nil {
		out.Fired = func(due, now core.Time) {
			h.guardObserver(core.RunID{}, func() { o.TimerFired(due.Std(), now.Std()) })
		}
	}
	if o.Committed != nil {
		out.Committed = func(took time.Duration, entries, bytes int) {
			h.guardObserver(core.RunID{}, func() { o.Committed(took, entries, bytes) })
		}
	}
	return out
}

// guardObserver calls an observer. A panic of it is logged.
func (h *host) guardObserver(run core.RunID, call func()) {
	defer func() {
		if v := recover(); v != nil {
			h.log.Error("Config.Observer panicked",
				"id", "observer-panic", "run", run.String(), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	call()
}

// bodyStopped tells of a body that cannot go on.
func (h *host) bodyStopped(run core.RunID, err error) {
	if tell := h.observer.BodyStopped; tell != nil {
		h.guardObserver(run, func() {
			tell(client.RunObservation{RunInfo: client.RunInfo{ID: run.String()}, Err: err})
		})
	}
}

// recorded tells of a record.
func (o *Observer) recorded(e *engine.Observation) {
	if o.RunStarted != nil && e.BeginsRun() {
		o.RunStarted(client.RunObservation{RunInfo: runInfo(e.ID, &e.Run)})
	}
	switch rec := e.Record.(type) {
	case core.RunEnded:
		if o.RunEnded != nil {
			o.RunEnded(client.RunObservation{
				RunInfo: runInfo(e.ID, &e.Run), Phase: client.Phase(rec.Phase.String()), EndedAt: e.At.Std(),
				Failure: e.Failure,
			})
		}
	case core.AttemptHeld:
		if o.AttemptHeld != nil {
			a := attemptOfRecord(e)
			a.Held, a.HeldBy, a.HeldUntil = rec.Held.Reason.String(), rec.Held.Place(), rec.Held.Until.Std()
			o.AttemptHeld(a)
		}
	case core.AttemptStarted:
		if o.AttemptStarted != nil {
			o.AttemptStarted(attemptOfRecord(e))
		}
	case core.AttemptEnded:
		if o.AttemptEnded != nil {
			a := attemptOfRecord(e)
			a.EndedAt, a.Failure, a.Retry, a.NextAt = e.At.Std(), rec.Failure, rec.Retry, rec.NextAt.Std()
			o.AttemptEnded(a)
		}
	default:
	}
}

func attemptOfRecord(e *engine.Observation) client.AttemptObservation {
	run := e.ID.String()
	a := client.AttemptObservation{
		AttemptInfo: client.AttemptInfo{
			RunID: run, Workflow: e.Run.Workflow, Step: e.Step, Number: e.Attempt.Attempt,
			IdempotencyKey: run + "/" + e.Step, Headers: e.Run.Headers.Map(),
		},
		Child: e.Spec.Kind == core.KindChild, Queue: e.Spec.Queue, Worker: e.Attempt.Worker,
		ReadyAt: e.Attempt.ReadyAt.Std(), StartedAt: e.Attempt.Started.Std(),
	}
	if share := e.Spec.Share; share != nil {
		a.Service = share.Service
		if share.Queue != "" {
			a.Queue = share.Queue
		}
	}
	return a
}

// Code that the program plugs into the engine may be broken: its Observer, its Interceptor, its log handler. A panic
// there must neither end the process nor repeat a step whose function has returned.

// returned is what a step's function has returned.
type returned struct {
	out []byte
	err error
}

// around runs a step's function within the interceptor. If the interceptor panics after the function has returned, what
// that returned counts.
func (h *host) around(at *attempt, fn stepFunc) (out []byte, err error) {
	var last atomic.Pointer[returned] // atomic: an interceptor may call the function in a goroutine of its own
	defer func() {
		r := last.Load()
		if r == nil {
			return // the function has not run, or it panicked itself: the attempt fails
		}
		if v := recover(); v != nil {
			h.log.Error("Config.Intercept panicked after the step's function had returned: its result is kept",
				"id", "intercept-panic", "run",
				at.task.Token.Run.String(), "step", at.task.StepName, "panic", v, "stack", string(debug.Stack()))
			out, err = r.out, r.err
		}
	}()
	return h.intercept(at, at.info(), func(ctx context.Context) ([]byte, error) {
		last.Store(nil)
		out, err := fn(ctx)
		last.Store(&returned{out, err})
		return out, err
	})
}
