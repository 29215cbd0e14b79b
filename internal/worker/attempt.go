package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// attempt is a task that the pool executes. It is the context of the executor.
type attempt struct {
	context.Context
	cancel   context.CancelCauseFunc
	pool     *Pool
	executor Executor
	task     core.Task
	pulse    Pulse

	abandon  atomic.Pointer[abandoning] // nil: the executor stops the work itself
	how      abandoning                 // the target of abandon
	patience sync.Once                  // it belongs to the goroutine that waits until the work is abandoned
	stopped  atomic.Pointer[func()]     // the function to call once the context is done; nil: none, or it was called

	// The lock of the attempt's part of Pool.running guards these.
	revoked bool
	over    bool          // its end was reported
	ended   chan struct{} // closed when it is over; nil: nobody waits for that
}

type attemptKey struct{}

func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// Abandon says what becomes of an attempt whose work may not heed its context, as a function of a user.
type Abandon struct {
	// Grace is how long the work may take to return after its context is done. Then the pool reports the attempt as
	// abandoned, and what the executor returns later counts for nothing.
	Grace time.Duration
	// Wait waits until what stops in its own time has stopped. The grace begins then. Nil: it begins at once.
	Wait func()
	// Lost is the result of work that ends its goroutine instead of returning.
	Lost Result
}

// abandoning is an Abandon with what has to know that it happened.
type abandoning struct {
	*Abandon
	over interface{ End() }
}

// MayAbandon allows the pool to abandon the attempt of that context. The pool calls over.End, unless over is nil: when
// it abandons the attempt, and when the work has returned and its end was reported. An executor that nobody's pool has
// called is not abandoned. Then MayAbandon returns false, and over.End is not called.
func MayAbandon(ctx context.Context, how *Abandon, over interface{ End() }) bool {
	a := attemptOf(ctx)
	if a == nil {
		return false
	}
	a.how = abandoning{how, over}
	a.abandon.Store(&a.how)
	if a.Err() != nil { // it was told to stop before
		a.waitForWork()
	}
	return true
}

// WhenStopped calls f once the context of an attempt is done. It takes less memory than context.AfterFunc, which counts
// where thousands of attempts run, but is for the context that the pool gives to an executor itself, and for one
// function of each. It reports whether it will.
func WhenStopped(ctx context.Context, f func()) bool {
	a, own := ctx.(*attempt)
	if !own || !a.stopped.CompareAndSwap(nil, &f) {
		return false
	}
	if a.Err() != nil {
		a.tellStopped()
	}
	return true
}

// tellStopped calls the function of WhenStopped.
func (a *attempt) tellStopped() {
	if f := a.stopped.Swap(nil); f != nil {
		(*f)()
	}
}

// end ends the context.
func (a *attempt) end(cause error) {
	a.cancel(cause)
	a.tellStopped()
}

// stop tells the work to stop.
func (a *attempt) stop(cause error) {
	a.end(cause)
	if a.abandon.Load() != nil {
		a.waitForWork()
	}
}

// waitForWork begins to wait for work that was told to stop, until it is abandoned.
func (a *attempt) waitForWork() {
	a.patience.Do(func() {
		part := a.pool.part(a.task.Token)
		part.mu.Lock()
		defer part.mu.Unlock()
		if !a.over {
			a.ended = make(chan struct{})
			go a.abandonAfter(a.abandon.Load(), a.ended)
		}
	})
}

func (a *attempt) abandonAfter(how *abandoning, ended <-chan struct{}) {
	if how.Wait != nil {
		how.Wait()
	}
	grace := time.NewTimer(how.Grace)
	defer grace.Stop()
	select {
	case <-ended:
		return
	case <-grace.C:
	}
	if how.over != nil {
		how.over.End()
	}
	a.finish(Result{Abandoned: true})
}

// execute does the work, and reports how it ended.
func (a *attempt) execute() {
	var res Result
	returned := false
	defer func() { // deferred, because an executor may end its goroutine without returning
		if how := a.abandon.Load(); !returned && how != nil {
			res = how.Lost
		} else if !returned {
			res = Result{Failure: unfinished()}
		}
		a.finish(res)
		if how := a.abandon.Load(); how != nil && how.over != nil {
			how.over.End()
		}
	}()
	if _, itself := a.executor.(Announcer); !itself && !Announce(a) {
		return
	}
	guard(&res, func() Result { return a.executor.Execute(a, &a.task, &a.pulse) })
	returned = true
}

// finish reports how the attempt has ended. Only the first call counts: the attempt may be abandoned before its
// executor returns.
func (a *attempt) finish(res Result) {
	p := a.pool
	part := p.part(a.task.Token)
	part.mu.Lock()
	if a.over {
		part.mu.Unlock()
		return
	}
	a.over = true
	delete(part.running, a.task.Token)
	revoked, closing := a.revoked, p.closing.Load()
	if a.ended != nil {
		close(a.ended)
	}
	part.mu.Unlock()
	defer p.gone.Done()
	told := a.Err() != nil
	a.end(nil)
	details := a.pulse.End()
	if res.Abandoned {
		p.cfg.Log.Warn("work was abandoned: it did not stop when it was killed", "run", a.task.Token.Run,
			"step", a.task.StepName, "attempt", a.task.Token.Attempt)
	}
	switch {
	case revoked:
		if details != nil { // the next attempt goes on from there
			p.cfg.Reporter.Report(a.task.Token.Run, core.Beat{
				Step: a.task.Token.Step, Attempt: a.task.Token.Attempt, Details: details,
			})
		}
		p.stopped(a.task.Token, res)
	case closing && told && (res.Failure != nil || res.Abandoned):
		p.ended(a.task.Token, Result{Failure: lostByClosing(res.Failure)}, details)
	default:
		p.ended(a.task.Token, res, details)
	}
}

func (p *Pool) ended(tok core.Token, res Result, details []byte) {
	p.cfg.Reporter.Report(tok.Run, endOf(tok, res, details))
}

// endOf returns the report of how an attempt ended.
func endOf(tok core.Token, res Result, details []byte) core.TaskEnded {
	return core.TaskEnded{
		Step: tok.Step, Attempt: tok.Attempt, Output: res.Output, Failure: res.Failure, Details: details,
	}
}

func notBegun() *policy.Failure {
	return &policy.Failure{
		Kind: policy.KindLost, Type: core.TypeNotBegun,
		Message: "the attempt came to its worker after its deadline",
	}
}

func (p *Pool) stopped(tok core.Token, res Result) {
	p.cfg.Reporter.Report(tok.Run, core.TaskStopped{
		Step: tok.Step, Attempt: tok.Attempt, Abandoned: res.Abandoned, Killed: res.Killed,
	})
}
