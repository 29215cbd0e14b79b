package service

import (
	"context"
	"errors"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// Embedded is the service of an engine in this process.
type Embedded struct {
	*reads
	engine engine.API
}

var _ api.Service = (*Embedded)(nil)

// NewEmbedded returns the service of an engine. read makes its stored definitions ready to use. now must be the
// engine's clock.
func NewEmbedded(e engine.API, read Read, now func() core.Time) *Embedded {
	return &Embedded{reads: newReads(e, read, now, false), engine: e}
}

// KnowProblems gives the service of a program with bodies the reasons why these cannot go on, by run. Call it before
// the first request.
func (s *Embedded) KnowProblems(problems func() map[core.RunID]error) { s.problems = problems }

// KnowWorkers gives the service the tasks that no worker takes. unserved reports whether no worker serves the tasks of
// a type in a queue, and waits returns why attempts wait until somebody acts, by run. Call it before the first request.
func (s *Embedded) KnowWorkers(
	unserved func(queue, taskType string) bool, waits func(context.Context) (map[core.RunID]error, error),
) {
	s.unserved, s.waits = unserved, waits
}

// KnowLines tells the service how runs stand in the lines of their queues. Call it before the first request.
func (s *Embedded) KnowLines(line func(context.Context, core.RunID) (core.Line, bool)) { s.line = line }

func (s *Embedded) Start(ctx context.Context, r api.StartRequest) (api.Started, error) {
	req, err := s.startRequest(r)
	if err != nil {
		return api.Started{}, err
	}
	return s.start(ctx, req)
}

func (s *Embedded) start(ctx context.Context, req engine.StartRequest) (api.Started, error) {
	started, err := s.engine.Start(ctx, req)
	if err != nil {
		return api.Started{}, wrap(err)
	}
	return api.Started{Run: started.Run.String(), Existing: started.Existing}, nil
}

func (s *Embedded) Wait(ctx context.Context, name string) (api.Outcome, error) {
	if id, err := core.ParseRunID(name); err == nil { // nearly always; no other name has to be looked for then
		if out, err := s.engine.Result(ctx, id); !absent(err) {
			return outcomeOf(out, err)
		}
	}
	id, err := s.find(ctx, name)
	if err != nil {
		return api.Outcome{}, err
	}
	out, err := s.engine.Result(ctx, id)
	if absent(err) {
		return api.Outcome{}, noSuchRun(name)
	}
	return outcomeOf(out, err)
}

func outcomeOf(out engine.Outcome, err error) (api.Outcome, error) {
	if err != nil {
		return api.Outcome{}, wrap(err)
	}
	return api.Outcome{
		Run: out.Run.String(), Phase: api.RunPhase(out.Phase.String()), Output: out.Output, Failure: out.Failure,
	}, nil
}

func (s *Embedded) Send(ctx context.Context, name string, signal api.SendRequest) error {
	id, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	if signal.Name == "" {
		return &api.Error{Code: api.CodeInvalid, Message: "event send refused: the event has no name"}
	}
	payload, err := api.Payload("event send", id.String(), signal.Payload)
	if err != nil {
		return err
	}
	return refused(s.engine.Signal(ctx, id, core.SignalReceived{
		Name: signal.Name, ID: signal.ID, Payload: payload, Actor: signal.Actor, Reason: signal.Reason,
	}, !signal.Keep))
}

func (s *Embedded) Operate(ctx context.Context, name string, op api.Operation) error {
	id, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	in, err := operation(op)
	if err != nil {
		return err
	}
	if op.Step != "" {
		known := false
		err := s.with(ctx, name, id, func(f *followed) error {
			var step *core.Step
			if step, known = core.StepNamed(f.trail.Run, op.Step); known {
				in.Step = step.ID
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !known {
			return noSuchStep(id, op.Step)
		}
	}
	return refused(s.engine.Operate(ctx, id, in))
}

func (s *Embedded) Stats(context.Context) (api.Stats, error) {
	st := s.engine.Stats()
	return api.Stats{
		Loaded: st.Loaded, Queued: st.Queued, Live: st.Live, Seq: st.Seq, Behind: st.Behind, Stalled: st.Stalled,
		Late: api.Duration(st.Late),
	}, nil
}

// refused makes a sentence of the engine's refusal. It leaves out the run, because the caller knows its name.
func refused(err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return wrap(err)
	}
	switch e.Code {
	case api.CodeConflict, api.CodeRunClosed, api.CodeInvalid, api.CodeNotFound:
		return &api.Error{
			Code: e.Code, Message: operationName(e.Op) + " refused: " + e.Reason(),
			Hint: e.Hint, Err: err,
		}
	default:
		return err
	}
}

// operationName returns what people call an operation.
func operationName(op string) string {
	return strings.ReplaceAll(op, "_", " ")
}
