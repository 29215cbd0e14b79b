package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lease"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/worker"
)

func init() { served.Register(withoutEngine, connect, toServe, bodiesOf, openShared) }

// openShared opens an engine that shares its database with others.
func openShared(ctx context.Context, given any, share func(*engine.Config) error) (served.Shared, error) {
	e, err := open(ctx, given.(Config), share)
	if err != nil {
		return served.Shared{}, err
	}
	return served.Shared{
		Engine: e, Serves: serves{e.explained, e}, Own: e.explained, Partitions: e.engine,
		Schedule: func(c any) { e.schedules.starter = c.(*connected) },
		Relay:    func(c any, turn func() bool) { e.relay(c.(Client), turn) },
	}, nil
}

// withoutEngine makes what executes handlers in a process without an engine.
func withoutEngine(ctx context.Context, given any, queue string, slots int, handlers any) (
	map[string]worker.Executor, func(), error,
) {
	cfg := given.(Config)
	all := handlers.([]AnyHandler)
	if err := cfg.check(); err != nil {
		return nil, nil, invalid(err, "serve %q", queue)
	}
	h := newHost(ctx, cfg.withDefaults())
	executors, err := h.served(queue, slots, all)
	if err != nil {
		h.bodies.Close()
		return nil, nil, err
	}
	return executors, h.bodies.Close, nil
}

// bodiesOf makes what serves the workflows of a configuration in a process without an engine.
func bodiesOf(ctx context.Context, server served.Remote, given any) (lease.Program, func(), error) {
	cfg := given.(Config)
	if err := cfg.check(); err != nil {
		return lease.Program{}, nil, invalid(err, "serve")
	}
	if len(cfg.Workflows) == 0 {
		err := errors.New("there are no workflows: name them in Config.Workflows")
		return lease.Program{}, nil, invalid(err, "serve")
	}
	cfg = cfg.withDefaults()
	h := newHost(ctx, cfg)
	p := lease.Program{Host: h.bodies, Slots: cfg.Concurrency, Grace: cfg.Grace, Log: cfg.Log}
	runs := connect(server, cfg).(*connected)
	for _, w := range append([]Definition{scheduleWorkflow(runs), backfillWorkflow(runs)}, cfg.Workflows...) {
		d := w.definition()
		err := h.register(d)
		if err == nil && (d.document != nil || d.elsewhere) {
			err = invalid(fmt.Errorf("workflow %q is no function of this program: a flow is applied to the server",
				d.name), "serve")
		}
		if err != nil {
			h.bodies.Close()
			return lease.Program{}, nil, err
		}
		p.Workflows = append(p.Workflows, d.served())
	}
	return p, h.bodies.Close, nil
}

// served is what a server has to know of a workflow.
func (d *definition) served() lease.Workflow {
	w := lease.Workflow{
		Definition: d.source(), Hooks: map[string]*core.StepSpec{}, Retry: d.retry, Execution: d.execution,
		Run: d.runLimit, Compensation: d.compensation, Queue: d.queue, Cron: d.cronSpec,
	}
	for name, h := range d.hooks {
		w.Hooks[name] = h.spec
	}
	return w
}
