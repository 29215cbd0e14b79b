package engine

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine/slots"
)

// Engine is the entry for callers, workers and bodies. It passes each call to the driver of the run's partition. New
// makes an engine, Open starts it. All methods are safe for concurrent use.
type Engine struct {
	drivers
	feeding
	newest newest // the starts that wait for the run before with their workflow id
}

// New returns an engine that does nothing yet: it has no goroutine and touches no storage. Workers and bodies can
// already be made with it. Calls and reports wait until Open. Close the engine even if Open was not called. Errors:
// CodeInvalid, if the configuration cannot be used.
func New(cfg Config) (*Engine, error) {
	if cfg.Journal == nil {
		return nil, invalid("open", "", "Config.Journal is not set")
	}
	for name, kind := range cfg.Kinds {
		if kind.Compile == nil && kind.Refuse == nil {
			return nil, invalid("open", "", "Config.Kinds[%q].Compile is not set", name)
		}
	}
	e := &Engine{feeding: feeding{begun: map[string][]*driver{}}}
	e.drivers.init(cfg.withDefaults())
	e.feeding.from = &e.drivers
	return e, nil
}

// Serve adds workers. The name is recorded with the attempts that they execute. If it is empty, the name of the
// partition's owner is recorded.
func (e *Engine) Serve(name string, w slots.Workers) {
	e.cfg.Matcher.Add(name, w)
	e.Rematch()
}

// ServePlaced adds workers whose slots are in several places; see Serve.
func (e *Engine) ServePlaced(name string, w slots.Placed) {
	e.cfg.Matcher.AddPlaced(name, w)
	e.Rematch()
}

// ServeRemote adds workers in other processes; see Serve.
func (e *Engine) ServeRemote(name string, w slots.RemoteWorkers) {
	e.cfg.Matcher.AddRemote(name, w)
	e.Rematch()
}

// Offered tells the engine that a remote worker has arrived with free slots; see Matcher.Offered.
func (e *Engine) Offered(queue string, takes func(taskType string) bool) {
	e.cfg.Matcher.Offered(queue, takes)
}

// Report implements worker.Reporter. It takes a worker's TaskEnded, TaskStopped or Beat. An output that is too large
// makes the attempt fail.
func (e *Engine) Report(run core.RunID, in core.Input) {
	e.within(run).requests.put(request{rep: report{run, in}})
}

// Confirm implements worker.Confirmer. It reports, and calls done when the report is durable, or with true if the
// attempt had ended before.
func (e *Engine) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	e.Do(run, nil, []core.Input{in}, func(err error) {
		var own *Error
		done(errors.As(err, &own) && own.Code != CodeUncertain && own.Code != CodeStalled)
	})
}

// Deliver reports as Report does. It calls done with nil when the report is durable, else with why it was refused. done
// must not block.
func (e *Engine) Deliver(run core.RunID, in core.Input, done func(error)) {
	e.Do(run, nil, []core.Input{in}, done)
}

// Do gives several inputs to one run, in order and in one commit. After the first refused input, only reports that
// an attempt has ended are taken, because that has happened anyway. The slots of attempts that ended are free
// afterwards.
//
// The loop calls done: with nil when everything is durable, else with the first refusal. done must not block; it may
// be nil.
//
// Decisions are rejected if their body is stale or of an earlier generation. body is nil if the inputs are no
// decisions.
func (e *Engine) Do(run core.RunID, body *Body, inputs []core.Input, done func(error)) {
	c := doCalls.get()
	c.Run, c.Inputs, c.Body, c.Done, c.spare = run, inputs, body, done, true
	part := e.within(run)
	if !part.requests.put(request{call: c}) && done != nil {
		go done(part.refusal()) // the caller may hold a lock that done needs
	}
}
