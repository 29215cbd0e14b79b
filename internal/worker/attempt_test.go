package worker

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// ended counts how often a pool has told that it abandons an attempt.
type ended struct{ times int }

func (e *ended) End() { e.times++ }

// TestPoolAbandons checks that work that does not heed its context is abandoned when its grace is over, which begins
// when what stops in its own time has stopped. What it returns later counts for nothing.
func TestPoolAbandons(t *testing.T) {
	for name, stop := range map[string]func(p *Pool, r *reports, task core.Task){
		"revoked": func(p *Pool, r *reports, task core.Task) {
			p.Revoke(task.Token, policy.KindTimeout)
			if got := next[core.TaskStopped](t, r); !got.Abandoned {
				t.Errorf("%+v", got)
			}
		},
		"closed": func(p *Pool, r *reports, _ core.Task) {
			closePool(t, p)
			workertest.WantFailure(t, next[core.TaskEnded](t, r).Failure, policy.KindLost, "worker_closed")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			release, begun, told := make(chan struct{}), make(chan struct{}), &ended{}
			r := newReports()
			p := NewPool(PoolConfig{Reporter: r, Executors: map[string]Executor{
				"deaf": executorFunc(func(ctx context.Context, _ core.Task, _ Alive) Result {
					wait := func() { <-time.After(time.Second) }
					MayAbandon(ctx, &Abandon{Grace: 5 * time.Second, Wait: wait}, told)
					close(begun)
					<-release
					return Result{Output: []byte("1")}
				}),
			}})
			defer closePool(t, p)
			task := workertest.Task("deaf", "")
			p.Dispatch(task)
			<-begun
			start := time.Now()
			stop(p, r, task)
			if took := time.Since(start); took != 6*time.Second || told.times != 1 {
				t.Errorf("%s: it was abandoned after %s, told %d times", name, took, told.times)
			}
			close(release)
			synctest.Wait()
			if len(r.news) != 0 {
				t.Errorf("%s: it is reported again: %+v", name, <-r.news)
			}
		})
	}
}

// TestPoolAbandonsLateWork checks that work is abandoned although its executor said that it may be only after it was
// told to stop.
func TestPoolAbandonsLateWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p, r := newTestPool(t, map[string]Executor{
			"deaf": executorFunc(func(ctx context.Context, _ core.Task, _ Alive) Result {
				<-ctx.Done()
				MayAbandon(ctx, &Abandon{Grace: time.Second}, nil)
				<-release
				return Result{}
			}),
		})
		task := workertest.Task("deaf", "")
		p.Dispatch(task)
		p.Revoke(task.Token, policy.KindTimeout)
		if got := next[core.TaskStopped](t, r); !got.Abandoned {
			t.Errorf("%+v", got)
		}
		close(release)
	})
}

// TestPoolKeepsGoroutines checks that attempts that follow one another share a goroutine, also after one has panicked.
// One that ends its goroutine has the result that its executor has given for that.
func TestPoolKeepsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := Result{Failure: &policy.Failure{Kind: policy.KindError, Type: "lost"}}
		p, r := newTestPool(t, map[string]Executor{
			"returns": executorFunc(func(context.Context, core.Task, Alive) Result { return Result{} }),
			"panics":  executorFunc(func(context.Context, core.Task, Alive) Result { panic("no such luck") }),
			"leaves": executorFunc(func(ctx context.Context, _ core.Task, _ Alive) Result {
				MayAbandon(ctx, &Abandon{Lost: lost}, nil)
				runtime.Goexit()
				return Result{}
			}),
		})
		do := func(name string) *policy.Failure {
			p.Dispatch(workertest.Task(name, ""))
			defer synctest.Wait()
			return next[core.TaskEnded](t, r).Failure
		}
		do("returns")
		do("panics")
		do("returns")
		if n := len(p.goroutines.idle); n != 1 {
			t.Errorf("%d goroutines wait for work", n)
		}
		workertest.WantFailure(t, do("leaves"), policy.KindError, "lost")
		if n := len(p.goroutines.idle); n != 0 {
			t.Errorf("%d goroutines wait for work although one has ended", n)
		}
	})
}
