package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
	"github.com/pawl-dev/pawl/policy"
)

// slowly is a Confirmer that tells of a report's durability when the test wants it to.
type slowly struct {
	*reports
	confirms chan func(ended bool)
}

func (s slowly) Confirm(run core.RunID, in core.Input, done func(ended bool)) {
	s.Report(run, in)
	s.confirms <- done
}

// TestPoolAnnounces checks that an attempt whose predecessor was lost starts when its announcement is durable. If the
// attempt has ended by then, it does not start.
func TestPoolAnnounces(t *testing.T) {
	begun := make(chan struct{}, 10)
	p, r := newTestPool(t, map[string]Executor{"work": executorFunc(func(context.Context, core.Task, Alive) Result {
		begun <- struct{}{}
		return Result{}
	})})
	s := slowly{r, make(chan func(bool), 1)}
	p.cfg.Reporter = s
	task := workertest.Task("work", "")
	task.Announce = true
	p.Dispatch(task)
	confirm := <-s.confirms
	if beat := next[core.Beat](t, r); beat.Attempt != 2 || len(begun) != 0 {
		t.Errorf("%+v was reported, %d have begun", beat, len(begun))
	}
	confirm(false)
	next[core.TaskEnded](t, r)
	if len(begun) != 1 {
		t.Errorf("%d have begun", len(begun))
	}
	p.Dispatch(task)
	(<-s.confirms)(true)
	p.Revoke(task.Token, policy.KindTimeout)
	next[core.TaskStopped](t, r)
	p.Dispatch(task)
	<-s.confirms
	p.Revoke(task.Token, policy.KindTimeout) // the announcement is not durable yet
	next[core.TaskStopped](t, r)
	p.cfg.Reporter = r // it cannot confirm
	p.Dispatch(task)
	next[core.TaskEnded](t, r)
	if len(begun) != 2 {
		t.Errorf("%d have begun, want one that was confirmed and one that could not be", len(begun))
	}
}

// TestTurns checks that every attempt gets a turn. A sixteenth of them have one at the same time, but at least as many
// as there are processors. An attempt that stops waiting takes no turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 64 * rounds
		var q turns
		var most, now, got atomic.Int64
		var group sync.WaitGroup
		giveUp, stop := context.WithCancel(t.Context())
		for i := range all {
			ctx := t.Context()
			if i%4 == 0 {
				ctx = giveUp
			}
			group.Go(func() {
				if q.take(ctx) {
					most.Store(max(most.Load(), now.Add(1)))
					<-time.After(time.Second) // a commit
					now.Add(-1)
					got.Add(1)
					q.give()
				}
			})
		}
		synctest.Wait()
		stop()
		start := time.Now()
		group.Wait()
		if most.Load() > all/rounds || time.Since(start) > 2*rounds*time.Second {
			t.Errorf("%d had a turn at once, it took %s", most.Load(), time.Since(start))
		}
		if got.Load() < all*3/4 || len(q.waiting) != 0 {
			t.Errorf("%d of %d had their turn, %d wait", got.Load(), all, len(q.waiting))
		}
	})
}
