package pawl

import (
	"context"
	"maps"
	"runtime/debug"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
)

// Headers gives the run headers: what goes along with it and is not its input, such as a tenant. Steps, handlers and
// hooks find them in [Attempt], bodies in [Info]. Children and the runs that follow in the chain have the same ones;
// they never change. Several of these options add up. They replace what a [Propagator] says about the same key; an
// empty value removes it. All keys and values together may have 4 KiB, a key 100 bytes.
func Headers(headers map[string]string) StartOption {
	return func(r *client.StartRequest) {
		all := maps.Clone(r.Headers)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, headers)
		r.Headers = all
	}
}

// Propagator takes what a context holds, such as a trace or the tenant of an HTTP request, along with the runs that are
// started with it. The contexts of their bodies, steps, handlers and hooks hold it again, in whichever process and
// after whichever restart. See [Config.Propagators].
type Propagator interface {
	// ToHeaders returns what goes along with a run that is started with this context; nil: nothing.
	ToHeaders(ctx context.Context) map[string]string
	// FromHeaders returns a context that holds what the headers of a run say. It is called for each attempt and each
	// call of a body, so it must not do I/O, and what it returns must depend on its arguments only.
	FromHeaders(ctx context.Context, headers map[string]string) context.Context
}

// headersOf returns the headers of a start: what the context holds, replaced by those that are given.
func headersOf(ctx context.Context, propagators []Propagator, given map[string]string) map[string]string {
	if len(propagators) == 0 {
		return given
	}
	all := map[string]string{}
	for _, p := range propagators {
		maps.Copy(all, p.ToHeaders(ctx))
	}
	maps.Copy(all, given)
	return all
}

// forwarded returns the headers of a task that leaves the program: what the context holds, which may be the trace of
// this very attempt, replaces what the run was started with.
func (h *host) forwarded(ctx context.Context, t *core.Task) core.Headers {
	if len(h.propagators) == 0 {
		return t.Headers
	}
	all := t.Headers.Map()
	if all == nil {
		all = map[string]string{}
	}
	h.guarded(t.Token.Run, func() {
		for _, p := range h.propagators {
			maps.Copy(all, p.ToHeaders(ctx))
		}
	})
	headers, err := core.MakeHeaders(all)
	if err != nil {
		h.log.Warn("the headers of a step's context cannot be sent along, those of its run are", "run",
			t.Token.Run.String(), "step", t.StepName, "error", err)
		return t.Headers
	}
	return headers
}

// carried returns a context with what the headers of a run say.
func (h *host) carried(ctx context.Context, run core.RunID, headers core.Headers) context.Context {
	if headers == "" {
		return ctx
	}
	all := headers.Map()
	for _, p := range h.propagators {
		h.guarded(run, func() {
			if next := p.FromHeaders(ctx, maps.Clone(all)); next != nil {
				ctx = next
			}
		})
	}
	return ctx
}

// guarded calls a propagator. A panic of it is logged, and the run goes on without what it would have said.
func (h *host) guarded(run core.RunID, call func()) {
	defer func() {
		if v := recover(); v != nil {
			h.log.Error("a propagator of Config.Propagators panicked", "run", run.String(), "panic", v, "stack",
				string(debug.Stack()))
		}
	}()
	call()
}
