package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/plugged"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/told"
	"github.com/pawl-dev/pawl/policy"
)

// Client starts runs and works with them. [Engine] is one, package pawlhttp has one for a server. A run is named by its
// run id or by its workflow id. A workflow id means the open run that has it, else the newest.
type Client interface {
	// StartRun makes a run. It returns when the start is durable. Errors: ErrConflict (a workflow id that is taken, a
	// key with another input), ErrTooLarge, ErrClosed.
	StartRun(ctx context.Context, r client.StartRequest) (client.Started, error)
	// AwaitRun waits for the end of a run's chain. Errors: ErrNotFound, ErrClosed.
	AwaitRun(ctx context.Context, id string) (client.Outcome, error)
	// SendEvent delivers an event, which [Event.Send] encodes. It returns when the event is durable: it stays with the
	// run, and with those that follow it in its chain (continue-as-new, run retries), until a wait takes it. A second
	// event with the same name and id changes nothing; a chain remembers the ids of the last 1,000 events it has taken.
	// An event for a run that others of its chain have followed goes to the last one. Errors: ErrNotFound,
	// ErrRunClosed, ErrFull, ErrTooLarge, ErrClosed.
	SendEvent(ctx context.Context, id string, r client.SendRequest) error
	// SendUpdate sends an update and waits for the answer; see [Update.Send], which encodes one.
	SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error)
	// Operate applies an operation. It returns when that is durable. An operation that ends, pauses or extends a whole
	// run applies to the last run of its chain. Errors: ErrNotFound, ErrRunClosed, ErrConflict, ErrInvalid.
	Operate(ctx context.Context, id string, op Operation) error
	// RestartRun starts a new run with the input of another one, with fresh deadlines, and returns the new run's id. It
	// runs all steps again, or those that the request names. The workflow id, if the run has one, must be free: the run
	// must have ended. Errors: ErrNotFound, ErrConflict.
	RestartRun(ctx context.Context, id string, r client.RestartRequest) (string, error)
	// DescribeRun returns a run as it stands. Errors: ErrNotFound.
	DescribeRun(ctx context.Context, id string) (client.Description, error)
	// Explain returns a run with everything that explains it: attempts, reasons, deadlines and where they were set,
	// what is next, operations. Errors: ErrNotFound.
	Explain(ctx context.Context, id string) (*client.Explanation, error)
	// HistoryEvents returns what has happened to a run, without its first events: those up to the number after. Errors:
	// ErrNotFound.
	HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error)
	// ListRuns lists runs, the newest first. Errors: ErrInvalid.
	ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error)
	// ListSchedules describes all schedules, the newest first; see [ScheduleOf] for one.
	ListSchedules(ctx context.Context) ([]client.ScheduleDescription, error)
	// Register makes workflows known to the engine, or, of one in another process, the documents of flows, which go
	// there with their first runs. Starting a run registers its workflow. Two definitions of one name are an error.
	Register(workflows ...Definition) error
	// Codec encodes what the client sends.
	Codec() Codec

	served.Sealed // it gets more methods with later versions, so only this module makes clients
}

var _ Client = (*local)(nil)

// Operation is what an operator or a caller asks of a run. Each is kept in the run's history.
type Operation struct {
	Op            client.Op
	Step          string           // the step, for operations on a step
	Output        any              // OpComplete: the step's result
	Err           error            // OpFail: the step's error
	Policy        []StepOption     // OpSetPolicy
	By            time.Duration    // OpExtend: by how much, or
	To            time.Time        // OpExtend: until when
	Limit         policy.LimitKind // OpExtend: which deadline; zero: the one there is
	StopClock     bool             // OpPause: the run's own deadlines stand still
	Actor, Reason string
}

// Codec returns the engine's codec.
func (e *local) Codec() Codec { return e.host.codec }

// StartRun makes a run.
func (e *local) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	if err := checkNew(&r); err != nil {
		return client.Started{}, err
	}
	if r.Workflow != schedule.Workflow { // a schedule must not inherit the caller's headers
		headers, err := plugged.Headers(ctx, e.host.propagators, r.Headers)
		if err != nil {
			return client.Started{}, err
		}
		r.Headers = headers
	}
	return e.startRun(ctx, r.Workflow, asked(&r), nil)
}

// startRun makes the run of a request, with results of an earlier one.
func (e *local) startRun(
	ctx context.Context, workflow string, r api.StartRequest, keep []core.Kept,
) (client.Started, error) {
	d, err := e.host.startable(workflow)
	if err != nil {
		return client.Started{}, err
	}
	begun, err := d.begin(r.Input)
	if err != nil {
		return client.Started{}, err
	}
	req, err := service.Start(d.source(), begun, &r)
	if err != nil {
		return client.Started{}, invalid(err, "start")
	}
	req.Keep = keep
	started, err := e.engine.Start(ctx, req)
	if err != nil {
		return client.Started{}, err
	}
	return client.Started{ID: started.Run.String(), Existing: started.Existing}, nil
}

// startable finds a workflow by its name, for a start.
func (h *host) startable(name string) (*definition, error) {
	d := h.definition(name)
	if d == nil {
		return nil, fmt.Errorf("pawl: start: workflow %q is not registered here: pass it to Config.Workflows or "+
			"Engine.Register", name)
	}
	return d, nil
}

// asked returns a program's request in the form of the API, without its workflow.
func asked(r *client.StartRequest) api.StartRequest {
	req := api.StartRequest{
		Input: r.Input, WorkflowID: r.ID, Key: r.IdempotencyKey, UseExisting: r.UseExisting, Actor: r.Actor,
		Reason: r.Reason, Labels: r.Labels, Headers: r.Headers,
	}
	if r.Queue != "" || r.QueueKey != "" || r.Priority != 0 {
		req.Queue = &api.RunQueue{Name: r.Queue, Key: r.QueueKey, Priority: r.Priority}
	}
	if !r.At.IsZero() {
		req.StartAt = api.Time(policy.At(r.At))
	}
	if !r.Deadline.IsZero() {
		req.Deadline = api.Time(policy.At(r.Deadline))
	}
	return req
}

// AwaitRun waits for the end of a run's chain.
func (e *local) AwaitRun(ctx context.Context, id string) (client.Outcome, error) {
	return onRun(ctx, e, id, func(run core.RunID) (client.Outcome, error) { return e.await(ctx, run) })
}

func (e *local) await(ctx context.Context, run core.RunID) (client.Outcome, error) {
	out, err := e.engine.Result(ctx, run)
	switch problem := e.host.bodies.Problem(run); {
	case err != nil && ctx.Err() == nil:
		return client.Outcome{}, err
	case err != nil && problem != nil:
		return client.Outcome{}, fmt.Errorf("pawl: run %s has not ended: %w; it cannot go on: %w", run,
			context.Cause(ctx), problem)
	case err != nil:
		return client.Outcome{}, fmt.Errorf("pawl: run %s has not ended: %w", run, context.Cause(ctx))
	}
	at := place{run: out.Run}
	return client.Outcome{
		ID: out.Run.String(), Phase: client.Phase(out.Phase.String()), Output: out.Output,
		Failure: decodedFailure(ctx, e.host.codec, at, out.Failure),
	}, nil
}

// onRun calls f with the run of a name, a run id or a workflow id. A run id needs no look-up. What looks like one may
// be a workflow id all the same: it is looked up if there is no such run.
func onRun[T any](ctx context.Context, e *local, id string, f func(run core.RunID) (T, error)) (T, error) {
	given, notID := core.ParseRunID(id)
	if notID == nil {
		out, err := f(given)
		if !errors.Is(err, ErrNotFound) {
			return out, err
		}
		if run, lookup := e.engine.Lookup(ctx, id); lookup != nil || run == given {
			return out, err
		}
	}
	run, err := e.engine.Lookup(ctx, id)
	if err != nil {
		var none T
		return none, err
	}
	return f(run)
}

// done is for calls that have no result but their error.
type done = struct{}

// Operate applies an operation.
func (e *local) Operate(ctx context.Context, id string, op Operation) error {
	_, err := onRun(ctx, e, id, func(run core.RunID) (done, error) { return done{}, e.operate(ctx, run, op) })
	return err
}

func (e *local) operate(ctx context.Context, run core.RunID, op Operation) error {
	in := core.Operation{
		Step: core.NoStep, By: op.By, Limit: op.Limit, StopClock: op.StopClock, Actor: op.Actor, Reason: op.Reason,
	}
	if err := in.Op.UnmarshalText([]byte(op.Op)); err != nil {
		return invalid(err, "operate")
	}
	if !op.To.IsZero() {
		in.To = policy.At(op.To)
	}
	if op.Err != nil {
		in.Failure = failureOf(op.Err)
	}
	if op.Policy != nil {
		o, err := stepPolicy(op.Policy)
		if err != nil {
			return invalid(err, "%s", op.Op)
		}
		in.Policy = &o.policy
	}
	if op.Step != "" || op.Output != nil {
		r, err := e.engine.Inspect(ctx, run)
		if err != nil {
			return err
		}
		if err := e.host.aim(ctx, &in, op, r); err != nil {
			return err
		}
	}
	return e.engine.Operate(ctx, run, in)
}

// aim fills in the parts of an operation that depend on its step.
func (h *host) aim(ctx context.Context, in *core.Operation, op Operation, r *core.Run) (err error) {
	if op.Step != "" {
		s, ok := core.StepNamed(r, op.Step)
		if !ok {
			return noStep("operate", r.ID, op.Step)
		}
		in.Step, op.Step = s.ID, s.Key()
	}
	codec := h.codec
	if r.Definition != definitionID(r.Workflow) {
		codec = JSON{} // the run is that of a flow
	}
	at := place{kindFailure, r.ID, r.Workflow, op.Step}
	sealed, err := sealFailure(ctx, codec, at, in.Failure)
	if in.Failure = sealed; isTransient(err) {
		return err
	}
	if op.Output == nil {
		return nil
	}
	at.kind = kindOutput
	in.Output, err = encode(ctx, codec, "the result", at, op.Output)
	return err
}

// DescribeRun returns a run as it stands.
func (e *local) DescribeRun(ctx context.Context, id string) (client.Description, error) {
	r, err := e.inspect(ctx, id)
	if err != nil {
		return client.Description{}, err
	}
	at := place{run: r.ID, workflow: r.Workflow}
	d := client.Description{
		Summary: client.Summary{
			ID: r.ID.String(), Workflow: r.Workflow, WorkflowID: r.WorkflowID, Phase: client.Phase(r.Phase.String()),
			CreatedAt: r.CreatedAt.Std(), EndedAt: r.EndedAt.Std(),
			Deadline: r.Execution.At.Earlier(r.Deadline.At).Std(), Labels: r.Labels.Map(),
		},
		Input: r.Input, Output: r.Output, Headers: r.Headers.Map(),
		Failure: decodedFailure(ctx, e.host.codec, at, r.Failure),
	}
	if problem := e.host.bodies.Problem(r.ID); problem != nil {
		d.Problem = problem.Error()
	}
	if p := r.Published; p != nil {
		d.State, d.StateAt = p.Value, p.At.Std()
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Dropped || body.Notes(s.Spec.Type) {
			continue
		}
		at.name = s.Key()
		d.Steps = append(d.Steps, client.StepDescription{
			Name: s.Key(), Phase: client.Phase(s.Phase.String()), Reason: s.Reason, Attempts: s.Counted,
			Scheduled: s.ScheduledAt.Std(), Ended: s.EndedAt.Std(), Next: s.NextAt.Std(),
			Deadline: s.ScheduleToClose.Earlier(s.Deadline).Std(), Output: s.Output,
			Failure: decodedFailure(ctx, e.host.codec, at, s.Failure),
		})
	}
	return d, nil
}

// ListRuns lists runs, the newest first; those with the soonest deadlines first if the query asks for deadlines.
func (e *local) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	return listRuns(ctx, e.explained, q)
}

// listRuns lists the runs of a service. What no index knows comes in short pages, so it asks for more of them.
func listRuns(ctx context.Context, from api.Reader, q client.Query) ([]client.Summary, error) {
	query, limit := queryOf(&q), q.Limit
	if limit <= 0 {
		limit = journal.DefaultLimit
	}
	out := []client.Summary{}
	for {
		query.Limit = limit - len(out)
		page, err := from.Runs(ctx, query)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			out = append(out, summaryOf(&page.Runs[i]))
		}
		if page.Next == "" || len(out) >= limit {
			return out, nil
		}
		query.Cursor = page.Next
	}
}

func queryOf(q *client.Query) api.Query {
	out := api.Query{
		Workflow: q.Workflow, WorkflowID: q.WorkflowID, Labels: q.Labels, Stuck: q.Stuck, Parent: q.Parent, Top: q.Top,
		DeadlineWithin: duration.Duration(q.DeadlineWithin), Retrying: q.Retrying, WillMiss: q.WillMiss,
		Input: q.Input, After: q.After,
	}
	for _, p := range q.Phases {
		out.Phases = append(out.Phases, api.RunPhase(p))
	}
	if !q.CreatedFrom.IsZero() {
		out.CreatedFrom = api.Time(policy.At(q.CreatedFrom))
	}
	if !q.CreatedBefore.IsZero() {
		out.CreatedBefore = api.Time(policy.At(q.CreatedBefore))
	}
	return out
}

// summaryOf returns a row of a list.
func summaryOf(r *api.RunSummary) client.Summary {
	s := client.Summary{
		ID: r.Run, Workflow: r.Workflow, WorkflowID: r.WorkflowID, Phase: client.Phase(r.Phase),
		CreatedAt: r.CreatedAt.Std(), EndedAt: r.EndedAt.Std(), Deadline: r.Deadline.Std(), Labels: r.Labels,
		Problem: r.Problem,
	}
	if s.Problem == "" && !r.Phase.Closed() {
		s.Held = r.Message
	}
	return s
}

// explainedRun returns the run of a name, the newest one of its chain, with what explains it.
func (e *local) explainedRun(ctx context.Context, id string) (*api.Run, error) {
	return service.Newest(id, func() (*api.Run, error) {
		return onRun(ctx, e, id, func(run core.RunID) (*api.Run, error) { return e.explained.Run(ctx, run.String()) })
	}, service.Stands)
}

// Explain returns a run with everything that explains it: every attempt of every step, why each step and the run ended
// as they did, which deadline ends them first and where it was set, what happens next and when, and who operated on it.
func (e *local) Explain(ctx context.Context, id string) (*client.Explanation, error) {
	r, err := e.explainedRun(ctx, id)
	if err != nil {
		return nil, missing(err, "explain", id)
	}
	return explained(ctx, r, e.host.codec), nil
}

// explained makes the explanation of a run. Steps with which bodies only note something are left out.
func explained(ctx context.Context, r *api.Run, codec Codec) *client.Explanation {
	r.Steps = slices.DeleteFunc(r.Steps, func(s *api.Step) bool { return body.Notes(s.Type) })
	out := told.Explain(r).(*client.Explanation)
	openExplanation(ctx, out, codec)
	return out
}

// openExplanation reads what the codec made of failures. Inputs and outputs stay as they are recorded.
func openExplanation(ctx context.Context, e *client.Explanation, c Codec) {
	at := placeOf(kindFailure, e.ID, e.Workflow, "")
	e.Failure = decodedFailure(ctx, c, at, e.Failure)
	for i := range e.Steps {
		s := &e.Steps[i]
		at.name = s.Name
		s.Failure = decodedFailure(ctx, c, at, s.Failure)
		for j := range s.Attempts {
			s.Attempts[j].Failure = decodedFailure(ctx, c, at, s.Attempts[j].Failure)
		}
	}
}

// explains returns what explains the runs of an engine.
func (e *local) explains() *service.Embedded {
	read := func(d journal.Definition) (*service.Prepared, error) {
		def, err := e.node.Compile(d)
		return &service.Prepared{Definition: def}, err
	}
	s := service.NewEmbedded(e.engine, read, func() core.Time { return policy.At(time.Now()) })
	s.KnowProblems(e.host.bodies.Problems)
	return s
}

// HistoryEvents returns what has happened to a run, in order, without the first events: those up to the number after.
func (e *local) HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error) {
	r, err := e.explainedRun(ctx, id)
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
		out = append(out, told.Event(&ev).(client.HistoryEvent))
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

// checkNew refuses names that are reserved.
func checkNew(r *client.StartRequest) error {
	return invalid(schedule.Reserved(r.Workflow, r.ID, r.Labels, false), "start")
}
