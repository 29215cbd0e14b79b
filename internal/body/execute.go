package body

import (
	"context"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// Announces says that Execute looks for a step's function before the attempt begins.
func (h *Host) Announces() {}

// Execute runs an attempt of a local step or of a hook. Its frames are on the stack for as long as the attempt runs, so
// what only some attempts need is in functions of its own.
func (h *Host) Execute(ctx context.Context, t *core.Task, alive worker.Alive) worker.Result {
	if t.Type == TypeHook {
		return h.Call(ctx, nil, func() worker.Result { return h.cfg.Attempt(ctx, t, alive, h.hook(*t)) })
	}
	k, fn := h.take(t)
	if fn == nil {
		var none worker.Result
		if k, fn, none = h.wanted(ctx, t); fn == nil {
			return none
		}
	}
	return h.perform(ctx, t, alive, k, fn)
}

// wanted waits until the body comes to the function of an attempt. If it does not, the attempt has the result that
// wanted returns.
func (h *Host) wanted(ctx context.Context, t *core.Task) (*Search, Func, worker.Result) {
	for ctx.Err() == nil {
		got := make(chan finding, 1)
		k := h.Search(*t, func(a Answer, fn Func) { got <- finding{a, fn} })
		if k == nil {
			<-ctx.Done() // the pool is about to be closed as well
			break
		}
		var f finding
		select {
		case f = <-got:
		case <-ctx.Done():
			f.answer = LookAgain
		}
		switch f.answer {
		case Found:
			return k, f.fn, worker.Result{}
		case NotReached:
			k.End()
			return nil, nil, notReached()
		case LookAgain:
			k.End()
		}
	}
	return nil, nil, notBegun(ctx)
}

// take looks for the function of an attempt in a session that knows it already, as most do. Nil: Search has to be
// asked.
func (h *Host) take(t *core.Task) (*Search, Func) {
	l := h.find(t.Token.Run)
	if l == nil {
		return nil, nil
	}
	l.lock()
	defer l.unlock()
	if !l.session.hasFunction(t.StepName) {
		return nil, nil
	}
	fn, _ := l.session.Want(t.StepName, t.Token.Step)
	return &Search{live: l.self, step: t.StepName}, fn
}

// perform calls the function of an attempt that has found it. The body learns that the attempt no longer needs it after
// it has learned of the attempt's end, for which it may be waiting.
func (h *Host) perform(ctx context.Context, t *core.Task, alive worker.Alive, k *Search, fn Func) worker.Result {
	if !worker.Announce(ctx) {
		k.End()
		return notBegun(ctx)
	}
	if !worker.MayAbandon(ctx, h.abandon, k) {
		defer k.End()
	}
	return h.cfg.Attempt(ctx, t, alive, fn)
}

// finding is the answer to an attempt that searches its function.
type finding struct {
	answer Answer
	fn     Func
}

// notReached gives an attempt back whose body does not come to its function for now, so that it holds no slot of what
// the body may be waiting for. It counts for nothing, and the next attempt starts when the body has come to the step.
func notReached() worker.Result {
	return worker.Result{Failure: &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun, Message: "the workflow's body has not come to the step yet",
	}}
}

func notBegun(ctx context.Context) worker.Result {
	return worker.Result{Failure: &policy.Failure{
		Kind: policy.KindCancelled, Type: "stopped", Message: context.Cause(ctx).Error(),
	}}
}

// Stopping is work within an attempt that stops in its own time when its context is done, as a process does with
// its kill ladder. The zero value is not at work.
type Stopping struct{ done atomic.Pointer[chan struct{}] }

// Work does the work.
func (s *Stopping) Work(do func()) {
	done := make(chan struct{})
	s.done.Store(&done)
	defer func() {
		s.done.Store(nil)
		close(done)
	}()
	do()
}

// wait waits until it has stopped.
func (s *Stopping) wait() {
	if done := s.done.Load(); done != nil {
		<-*done
	}
}

// Call calls a function of a user that executes an attempt. If it does not heed its context it is abandoned: the grace
// for that begins when what stops in its own time has stopped; own may be nil.
func (h *Host) Call(ctx context.Context, own *Stopping, run func() worker.Result) worker.Result {
	if !worker.Announce(ctx) {
		return notBegun(ctx)
	}
	how := h.abandon
	if own != nil {
		how = &worker.Abandon{Grace: how.Grace, Wait: own.wait, Lost: how.Lost}
	}
	worker.MayAbandon(ctx, how, nil)
	return run()
}
