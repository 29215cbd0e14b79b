package pawl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/naming"
	"github.com/pawl-dev/pawl/internal/plugged"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

func init() { served.Register(withoutEngine, connect, serviceOf, bodiesOf) }

// withoutEngine makes what executes handlers in a process without an engine.
func withoutEngine(ctx context.Context, given any, queue string, slots int, handlers any) (
	map[string]worker.Executor, func(), error,
) {
	cfg := given.(Config)
	all := handlers.([]AnyHandler)
	if ctx == nil {
		return nil, nil, errNilContext
	}
	if err := cfg.check(); err != nil {
		return nil, nil, invalid(err, "serve %q", queue)
	}
	h := newHost(ctx, cfg.withDefaults())
	executors, err := h.executorsOf(queue, slots, all)
	if err != nil {
		h.bodies.Close()
		return nil, nil, err
	}
	return executors, h.bodies.Close, nil
}

// bodiesOf builds the lease.Program of a process without an engine from a configuration.
func bodiesOf(ctx context.Context, given any) (lease.Program, func(), error) {
	cfg := given.(Config)
	if ctx == nil {
		return lease.Program{}, nil, errNilContext
	}
	if err := cfg.check(); err != nil {
		return lease.Program{}, nil, invalid(err, "serve")
	}
	if len(cfg.Workflows) == 0 {
		err := errors.New("there are no workflows: name them in ServeConfig.Workflows")
		return lease.Program{}, nil, invalid(err, "serve")
	}
	cfg = cfg.withDefaults()
	h := newHost(ctx, cfg)
	p := lease.Program{Host: h.bodies, Slots: cfg.Concurrency, Grace: cfg.Grace, Log: cfg.Log}
	for _, w := range cfg.Workflows {
		d := w.definition()
		err := h.register(d)
		if err == nil && (d.document != nil || d.external) {
			err = invalid(fmt.Errorf("workflow %q is no function of this program: a flow is applied to the server",
				d.name), "serve")
		}
		if err != nil {
			h.bodies.Close()
			return lease.Program{}, nil, err
		}
		p.Workflows = append(p.Workflows, d.leaseWorkflow())
	}
	return p, h.bodies.Close, nil
}

// leaseWorkflow returns what a server has to know of a workflow.
func (d *definition) leaseWorkflow() lease.Served {
	w := lease.Served{
		Definition: d.source(), Hooks: map[string]*core.StepSpec{}, Retry: d.retry, Execution: d.execution,
		Run: d.runLimit, Compensation: d.compensation, Queue: d.queue, Cron: d.cronSpec,
	}
	for name, h := range d.hooks {
		w.Hooks[name] = h.spec
	}
	return w
}

// engineService is an engine as a server needs it. Calls about workflows, which its program alone knows, go through the
// engine.
type engineService struct {
	*service.Embedded
	engine *local
}

// Workflows returns the names of the workflows that the program has.
func (s engineService) Workflows() (names []string) {
	h := s.engine.host
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.workflows {
		if !strings.HasPrefix(name, "pawl.") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Find returns the definition of a workflow.
func (s engineService) Find(_ context.Context, name string) (api.Definition, error) {
	d := s.engine.host.definition(name)
	if d == nil {
		return api.Definition{}, &api.Error{
			Code: api.CodeNotFound, Message: fmt.Sprintf("workflow %q is not registered in the server's program", name),
			Hint: "pass it to Config.Workflows or Engine.Register there",
		}
	}
	of := d.source()
	return api.Definition{ID: of.ID.String(), Kind: of.Kind, Name: of.Name, Source: string(of.Source)}, nil
}

// Start makes a run of a workflow that the program has.
func (s engineService) Start(ctx context.Context, r api.StartRequest) (api.Started, error) {
	name := r.Definition.Name
	has, err := s.Find(ctx, name)
	if err != nil {
		return api.Started{}, err
	}
	if err := schedule.Reserved(name, r.WorkflowID, r.Labels, r.ScheduledAt != 0); err != nil {
		return api.Started{}, invalid(err, "start")
	}
	if has.ID != r.Definition.ID {
		return api.Started{}, &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the server's program has another workflow %q", name),
			Hint: "both programs need the same flow document; or start it by its name",
		}
	}
	started, err := s.engine.startRun(ctx, name, r, nil)
	return api.Started{Run: started.ID, Existing: started.Existing}, err
}

// Restart makes a run like an earlier one.
func (s engineService) Restart(ctx context.Context, name string, r api.RestartRequest) (api.Started, error) {
	run, err := s.Run(ctx, name)
	if err != nil {
		return api.Started{}, err
	}
	if r.Definition != nil || r.Input != nil {
		return api.Started{}, &api.Error{
			Code: api.CodeInvalid, Message: "this program does not go on with another text or input of a workflow",
			Hint: "retry the run, or restart it",
		}
	}
	if r.Reason == "" {
		r.Reason = "as run " + run.Run
	}
	id, err := s.engine.RestartRun(ctx, run.Run, client.RestartRequest{
		Steps: r.Steps, From: r.From, Failed: r.Failed, Actor: r.Actor, Reason: r.Reason,
	})
	return api.Started{Run: id}, err
}

// Update sends an update to a run's body.
func (s engineService) Update(ctx context.Context, name string, u api.Update) (api.Answer, error) {
	a, err := s.engine.SendUpdate(ctx, name, client.SendRequest{Name: u.Name, ID: u.ID, Payload: u.Payload})
	return api.Answer{Run: a.Run, Output: a.Output, Failure: a.Failure, Refused: a.Refused}, err
}

// serviceOf returns a *Engine as a server needs it.
func serviceOf(e any) served.ProgramEngine { return e.(*Engine).serves }

// nodes is the service of the runs of all nodes of a cluster. Which workflows there are, this node's program says.
type nodes struct {
	served.Calls
	own served.ProgramEngine
}

func (s nodes) Workflows() []string { return s.own.Workflows() }

func (s nodes) Find(ctx context.Context, name string) (api.Definition, error) {
	return s.own.Find(ctx, name)
}

func (s nodes) StartNamed(ctx context.Context, workflow string, r api.StartRequest) (api.Started, error) {
	d, err := s.Find(ctx, workflow)
	if err != nil {
		return api.Started{}, err
	}
	r.Definition = d
	return s.Start(ctx, r)
}

// connected is a [Client] over the service of another process; pawlhttp.Connect returns one.
type connected struct {
	served.Seal
	service     served.Server
	codec       Codec
	propagators []Propagator

	mu    sync.Mutex
	flows map[string]api.Definition // documents that this program has
}

var _ Client = (*connected)(nil)

// connect makes the client of a service. given is a Config, of which the codec and the propagators count.
func connect(s served.Server, given any) any {
	cfg := given.(Config).withDefaults()
	c := &connected{service: s, codec: cfg.Codec, propagators: cfg.Propagators, flows: map[string]api.Definition{}}
	_ = c.Register(scheduleWorkflow()) // it has no error
	return spoken{c}
}

// Codec returns the client's codec.
func (c *connected) Codec() Codec { return c.codec }

// Register notes the documents of flows, which go to the server with their first runs. The server's program has the
// functions of workflows in Go.
func (c *connected) Register(workflows ...Definition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range workflows {
		if err := missingDefinition(w); err != nil {
			return invalid(err, "register")
		}
		if err := w.Err(); err != nil {
			return err
		}
		d := w.definition()
		if d.document == nil {
			continue
		}
		s := d.source()
		c.flows[d.name] = api.Definition{ID: s.ID.String(), Kind: s.Kind, Name: s.Name, Source: string(s.Source)}
	}
	return nil
}

func (c *connected) StartRun(ctx context.Context, r client.StartRequest) (client.Started, error) {
	if err := checkNew(&r); err != nil {
		return client.Started{}, err
	}
	if r.Workflow != schedule.Workflow { // a schedule must not inherit the caller's headers
		headers, err := plugged.Headers(ctx, c.propagators, r.Headers)
		if err != nil {
			return client.Started{}, err
		}
		r.Headers = headers
	}
	texts := naming.Start{
		WorkflowID: r.ID, Key: r.IdempotencyKey, Queue: r.Queue, QueueKey: r.QueueKey, Actor: r.Actor, Reason: r.Reason,
	}
	if err := texts.Check(); err != nil { // JSON would make other names of these
		return client.Started{}, invalid(err, "start")
	}
	req := asked(&r)
	c.mu.Lock()
	flow, known := c.flows[r.Workflow]
	c.mu.Unlock()
	var out api.Started
	var err error
	if known {
		req.Definition = flow
		out, err = c.service.Start(ctx, req)
	} else {
		out, err = c.service.StartNamed(ctx, r.Workflow, req)
	}
	return client.Started{ID: out.Run, Existing: out.Existing}, err
}

func (c *connected) AwaitRun(ctx context.Context, id string) (client.Outcome, error) {
	out, err := c.service.Wait(ctx, id)
	if err != nil && ctx.Err() != nil {
		return client.Outcome{}, fmt.Errorf("pawl: run %s has not ended: %w", id, context.Cause(ctx))
	}
	if err != nil {
		return client.Outcome{}, err
	}
	at := placeOf(kindFailure, out.Run, "", "")
	return client.Outcome{
		ID: out.Run, Phase: client.Phase(out.Phase), Output: out.Output,
		Failure: decodedFailure(ctx, c.codec, at, out.Failure),
	}, nil
}

func (c *connected) SendEvent(ctx context.Context, id string, r client.SendRequest) error {
	if err := checkSend("event", &r); err != nil {
		return err
	}
	return c.service.Send(ctx, id, api.SendRequest{Name: r.Name, ID: r.ID, Payload: r.Payload, Actor: r.Actor})
}

func (c *connected) SendUpdate(ctx context.Context, id string, r client.SendRequest) (client.Answer, error) {
	if err := checkSend("update", &r); err != nil {
		return client.Answer{}, err
	}
	if r.ID == "" {
		r.ID = rand.Text() // a request that is sent again must not be another update
	}
	a, err := c.service.Update(ctx, id, api.Update{Name: r.Name, ID: r.ID, Payload: r.Payload})
	return client.Answer{Run: a.Run, Output: a.Output, Failure: a.Failure, Refused: a.Refused}, err
}

func (c *connected) Operate(ctx context.Context, id string, op Operation) error {
	out := api.Operation{
		Operation: string(op.Op), Step: op.Step, By: api.Extension(op.By), StopClock: op.StopClock, Actor: op.Actor,
		Reason: op.Reason,
	}
	if op.Limit != 0 {
		out.Limit = op.Limit.String()
	}
	if !op.To.IsZero() {
		out.To = api.Time(policy.At(op.To))
	}
	if op.Policy != nil {
		o, err := stepPolicy(op.Policy)
		if err != nil {
			return invalid(err, "%s", op.Op)
		}
		out.Policy = &o.policy
	}
	if op.Output != nil || op.Err != nil {
		if err := c.give(ctx, id, op, &out); err != nil {
			return err
		}
	}
	return c.service.Operate(ctx, id, out)
}

// give encodes what an operation gives to a step, as the run's workflow does.
func (c *connected) give(ctx context.Context, id string, op Operation, out *api.Operation) (err error) {
	r, err := c.service.Run(ctx, id)
	if err != nil {
		return err
	}
	codec := c.codec
	if !kind.TraitsOf(r.Kind).Coded {
		codec = JSON{}
	}
	if op.Err != nil {
		at := placeOf(kindFailure, r.Run, r.Workflow, op.Step)
		if out.Failure, err = sealFailure(ctx, codec, at, failureOf(op.Err)); isTransient(err) {
			return err
		}
	}
	if op.Output == nil {
		return nil
	}
	out.Output, err = encode(ctx, codec, "the result", placeOf(kindOutput, r.Run, r.Workflow, op.Step), op.Output)
	return err
}

func (c *connected) RestartRun(ctx context.Context, id string, again client.RestartRequest) (string, error) {
	r, err := c.service.Run(ctx, id)
	if err != nil {
		return "", missing(err, "restart", id)
	}
	out, err := c.service.Restart(ctx, r.Run, api.RestartRequest{
		Steps: again.Steps, From: again.From, Failed: again.Failed, Actor: again.Actor, Reason: again.Reason,
	})
	return out.Run, err
}

func (c *connected) DescribeRun(ctx context.Context, id string) (client.Description, error) {
	r, err := c.service.Run(ctx, id)
	if err != nil {
		return client.Description{}, missing(err, "describe", id)
	}
	at := placeOf(kindFailure, r.Run, r.Workflow, "")
	d := client.Description{
		Summary: summaryOf(&r.RunSummary), Input: r.Input, Output: r.Output,
		Failure: decodedFailure(ctx, c.codec, at, r.Failure), Headers: r.Headers, State: r.State,
		StateAt: r.StateAt.Std(),
	}
	d.Held = ""
	for _, s := range r.Steps {
		if s.Superseded || body.Notes(s.Type) {
			continue
		}
		at.name = s.Step
		d.Steps = append(d.Steps, c.describe(ctx, at, s))
	}
	return d, nil
}

func (c *connected) describe(ctx context.Context, at place, s *api.Step) client.StepDescription {
	d := client.StepDescription{
		Name: s.Step, Phase: client.Phase(s.Phase), Attempts: s.Counted, Scheduled: s.ScheduledAt.Std(),
		Ended: s.EndedAt.Std(), Next: s.NextAt.Std(),
		Deadline: core.Time(s.ScheduleToClose).Earlier(core.Time(s.Deadline)).Std(), Output: s.Output,
		Failure: decodedFailure(ctx, c.codec, at, s.Failure),
	}
	_ = d.Reason.UnmarshalText([]byte(s.Reason)) // one that only a newer server has is left out
	return d
}

func (c *connected) Explain(ctx context.Context, id string) (*client.Explanation, error) {
	r, err := c.service.Run(ctx, id)
	if err != nil {
		return nil, missing(err, "explain", id)
	}
	return explained(ctx, r, c.codec), nil
}

func (c *connected) HistoryEvents(ctx context.Context, id string, after int) ([]client.HistoryEvent, error) {
	r, err := c.service.Run(ctx, id)
	if err != nil {
		return nil, missing(err, "history", id)
	}
	return eventsOf(ctx, c.service, r, after)
}

func (c *connected) ListRuns(ctx context.Context, q client.Query) ([]client.Summary, error) {
	return listRuns(ctx, c.service, q)
}

// checkSend refuses the names of an event or update that another process would read as others. what says which it is.
func checkSend(what string, r *client.SendRequest) error {
	return invalid(naming.Send{Name: r.Name, ID: r.ID, Actor: r.Actor}.Check(), "%s", what)
}
