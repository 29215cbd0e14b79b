package bench

import (
	"context"
	"sync/atomic"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/worker"
)

type directPool struct {
	types map[string]worker.Executor
	rep   atomic.Pointer[worker.Reporter]
	ready chan struct{}
}

type noop struct{}

func (noop) Execute(context.Context, core.Task, worker.Alive) worker.Result { return worker.Result{} }

func newDirectPool(types map[string]worker.Executor) *directPool {
	p := &directPool{types: map[string]worker.Executor{"noop": noop{}}, ready: make(chan struct{})}
	for k, v := range types {
		p.types[k] = v
	}
	return p
}
func (p *directPool) to(r worker.Reporter) { p.rep.Store(&r); close(p.ready) }
func (p *directPool) Slots(_, typ string) int {
	if p.types[typ] == nil {
		return 0
	}
	return 1024
}
func (p *directPool) Dispatch(t core.Task) {
	go func() {
		<-p.ready
		r := p.types[t.Type].Execute(context.Background(), t, nil)
		(*p.rep.Load()).Report(t.Token.Run, core.TaskEnded{Step: t.Token.Step, Attempt: t.Token.Attempt, Output: r.Output, Failure: r.Failure})
	}()
}
func (p *directPool) Revoke(core.Token, policy.Kind) {}
