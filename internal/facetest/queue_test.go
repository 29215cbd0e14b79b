package facetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/policy"
)

// bills returns a workflow whose runs take a minute each, and what they did.
func bills(g *gauge, opts ...pawl.Option) *pawl.Workflow[string, string] {
	return pawl.Define("bill", func(ctx pawl.Context, key string) (string, error) {
		return pawl.Step(ctx, "work", func(context.Context) (string, error) {
			g.run(key, time.Minute)
			return key, nil
		})
	}, opts...)
}

func queueConfig(l policy.QueueLimits, w ...pawl.Definition) pawl.Config {
	return pawl.Config{Workflows: w, Queues: map[string]policy.QueueLimits{"bills": l}}
}

// TestRunQueue checks that runs are accepted at once and begin as their queue admits them.
func TestRunQueue(t *testing.T) {
	var g gauge
	w := bills(&g, pawl.RunQueue("bills", 0))
	cfg := queueConfig(policy.QueueLimits{Concurrency: 3, PerKey: 2}, w)
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		begin := time.Now()
		var all []pawl.Run[string]
		for i := range 12 {
			key := []string{"a", "a", "a", "b"}[i%4]
			r := started(t, e, w, fmt.Sprint(i), key, pawl.InQueue("", key, 0))
			all = append(all, r)
		}
		if time.Since(begin) != 0 {
			t.Errorf("the starts took %s", time.Since(begin))
		}
		for _, r := range all {
			if _, err := r.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if g.most[""] != 3 || g.most["a"] != 2 || g.most["b"] > 2 {
			t.Errorf("at once: %v", g.most)
		}
	})
}

// TestHeldRunAfterItsInstant checks two runs that wait for the next start of a rate. The one that has to wait on is
// not shown as held until an instant that has passed.
func TestHeldRunAfterItsInstant(t *testing.T) {
	var g gauge
	w := bills(&g)
	limits := policy.QueueLimits{Rate: policy.Rate{N: 1, Per: time.Minute}}
	pawltest.RunWith(t, queueConfig(limits, w), func(t *testing.T, e *pawltest.Env) {
		for i, id := range []string{"1", "2", "3"} {
			if _, err := w.Start(t.Context(), e, id, id, pawl.InQueue("bills", "", int32(-i))); err != nil {
				t.Fatal(err)
			}
		}
		e.Skip(90 * time.Second)
		const why = "held by queue bills: its rate is used up"
		list, err := e.ListRuns(t.Context(), client.Query{WorkflowID: "3"})
		if err != nil || len(list) != 1 || list[0].Held != why {
			t.Errorf("the list has %+v, %v", list, err)
		}
		held, err := e.Explain(t.Context(), list[0].ID)
		if err != nil || held.Held != why {
			t.Errorf("explained: %q, %v", held.Held, err)
		}
		e.Skip(5 * time.Minute) // all of them end
	})
}

// TestHeldRun shows a run that is held: what explains it, what it can be told, and that its own limit counts from its
// beginning.
func TestHeldRun(t *testing.T) {
	var g gauge
	w := bills(&g, pawl.RunTimeout("90s"))
	pawltest.RunWith(t, queueConfig(policy.QueueLimits{Concurrency: 1}, w), func(t *testing.T, e *pawltest.Env) {
		start := func(id string, opts ...pawl.StartOption) pawl.Run[string] {
			r := started(t, e, w, id, id, append(opts, pawl.InQueue("bills", "", 0))...)
			return r
		}
		first := start("1")
		synctest.Wait() // it has begun; of runs that were created at the same instant, any may be the first
		second, third := start("2"), start("3")
		if again := start("2", pawl.UseExisting()); again.ID != second.ID || !again.Existing {
			t.Errorf("UseExisting: %+v", again)
		}
		if _, err := w.Start(t.Context(), e, "2", "2"); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("its workflow id is used: %v", err)
		}
		held, err := e.Explain(t.Context(), second.ID)
		if err != nil {
			t.Fatal(err)
		}
		const why = "held by queue bills: its concurrency is used up"
		if held.Phase != client.PhasePending || held.Held != why || held.QueuedAt.IsZero() || !held.StartedAt.IsZero() {
			t.Errorf("%s since %s: %q", held.Phase, held.QueuedAt, held.Held)
		}
		list, err := e.ListRuns(t.Context(), client.Query{WorkflowID: "2"})
		if err != nil || len(list) != 1 || list[0].Held != why || list[0].Problem != "" {
			t.Errorf("%+v, %v", list, err)
		}
		must(t, third.Cancel(t.Context(), "not needed"))
		if _, err := third.Result(t.Context()); !errors.Is(err, pawl.ErrCancelled) {
			t.Errorf("a held run that is cancelled: %v", err)
		}
		for _, r := range []pawl.Run[string]{first, second} { // the second one needs 2 minutes and may take 90 seconds
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(g.order, []string{"1", "2"}) {
			t.Errorf("they began as %q", g.order)
		}
	})
}

// TestRunQueueOrder checks that the run with the highest priority goes first, then the one that came first.
func TestRunQueueOrder(t *testing.T) {
	var g gauge
	w := bills(&g)
	cfg := queueConfig(policy.QueueLimits{Rate: policy.Rate{N: 1, Per: time.Hour}}, w)
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		var last pawl.Run[string]
		for i, priority := range []int32{0, 0, 5, -1, 5} {
			key := fmt.Sprint(i)
			r := started(t, e, w, key, key, pawl.InQueue("bills", "", priority))
			if priority < 0 {
				last = r
			}
			<-time.After(time.Second)
		}
		begin := time.Now()
		if _, err := last.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The last one begins after four hours.
		if took := time.Since(begin).Round(time.Minute); took != 4*time.Hour+time.Minute {
			t.Errorf("five runs took %s", took)
		}
		if got := strings.Join(g.order, " "); got != "0 2 4 1 3" {
			t.Errorf("they began as %s", got)
		}
	})
}

// TestChainInQueue checks that a run that continues as new keeps its place.
func TestChainInQueue(t *testing.T) {
	var order []string
	var mu sync.Mutex
	begins := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, name)
	}
	loop := pawl.Define("loop", func(ctx pawl.Context, n int) (string, error) {
		begins(fmt.Sprint("loop ", n))
		if err := pawl.Sleep(ctx, "nap", time.Minute); err != nil {
			return "", err
		}
		if n < 2 {
			return "", pawl.ContinueAsNew(ctx, n+1)
		}
		return "done", nil
	}, pawl.RunQueue("bills", 0))
	other := pawl.Define("other", func(pawl.Context, int) (string, error) {
		begins("other")
		return "", nil
	}, pawl.RunQueue("bills", 100))
	cfg := queueConfig(policy.QueueLimits{Concurrency: 1}, loop, other)
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		if _, err := loop.Start(t.Context(), e, "", 0); err != nil {
			t.Fatal(err)
		}
		e.Settle() // else the other one, which goes first, may come before it has begun
		r := started(t, e, other, "", 0)
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.Settle()
		mu.Lock()
		defer mu.Unlock()
		seen := slices.Compact(order) // a body may be called again
		if got := strings.Join(seen, ", "); got != "loop 0, loop 1, loop 2, other" {
			t.Errorf("they began as %s", got)
		}
	})
}

// TestChildInQueue checks that a child run waits in the queue of its workflow, under the key of its step.
func TestChildInQueue(t *testing.T) {
	var g gauge
	w := bills(&g, pawl.RunQueue("bills", 0))
	parent := pawl.Define("parent", func(ctx pawl.Context, n int) (string, error) {
		var all []*pawl.Future[string]
		for i := range n {
			key := fmt.Sprint(i % 2)
			all = append(all, pawl.ChildAsync(ctx, fmt.Sprint("child-", i), w, key, pawl.Key(key)))
		}
		_, err := pawl.All(ctx, all...)
		return "", err
	})
	cfg := queueConfig(policy.QueueLimits{PerKey: 1}, w, parent)
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		r := started(t, e, parent, "", 6)
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		if g.most["0"] != 1 || g.most["1"] != 1 || g.most[""] != 2 {
			t.Errorf("at once: %v", g.most)
		}
	})
}

// TestKeyWithoutQueue checks that a key without a queue, which has no effect, is refused.
func TestKeyWithoutQueue(t *testing.T) {
	var g gauge
	w := bills(&g)
	pawltest.RunWith(t, queueConfig(policy.QueueLimits{}, w), func(t *testing.T, e *pawltest.Env) {
		_, err := w.Start(t.Context(), e, "", "", pawl.InQueue("", "acme", 0))
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "no queue") {
			t.Errorf("a key without a queue: %v", err)
		}
		if err := bills(&g, pawl.RunQueue("", 0)).Err(); err == nil || !strings.Contains(err.Error(), "run queue") {
			t.Errorf("a queue without a name: %v", err)
		}
	})
}

// TestBodyStaysWhileItsStepIsQueued checks many runs that share few slots, so that their steps wait for long. Each
// body is called once: it stays, although it waits for longer than other bodies may.
func TestBodyStaysWhileItsStepIsQueued(t *testing.T) {
	var bodies atomic.Int32
	w := pawl.Define("queued", func(ctx pawl.Context, _ none) (none, error) {
		bodies.Add(1)
		for range 2 {
			err := pawl.Do(ctx, "step", func(ctx context.Context) error {
				if err := wait(ctx, time.Second); err != nil || pawl.Attempt(ctx).Number > 1 {
					return err
				}
				return errors.New("once more")
			}, pawl.Retry("fixed(2, 10ms)"))
			if err != nil {
				return none{}, err
			}
		}
		return none{}, nil
	})
	bubble(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), pawl.Config{
			Journal: memory.New(), Workflows: []pawl.Definition{w}, Concurrency: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		const runs = 20
		var all [runs]pawl.Run[none]
		for i := range all {
			if all[i], err = w.Start(t.Context(), e, "", none{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range all {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := bodies.Load(); n != runs {
			t.Errorf("%d runs called their bodies %d times", runs, n)
		}
	})
}
