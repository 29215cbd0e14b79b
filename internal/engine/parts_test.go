package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestEngineOfPartitions runs parents and children on an engine of four partitions. Calls find their run in any
// partition, lists and counters include all of them, and after a restart all runs go on.
func TestEngineOfPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(4)
		kid := flow("kid", task(), nap(time.Second)).definition()
		resolve := func(core.DefinitionID, string) (journal.Definition, error) { return kid, nil }
		kinds := func(c *Config) {
			c.Kinds = map[string]Kind{"plan": {Compile: compilePlan, Child: jsonChild(resolve)}}
		}
		e, _ := open(t, j, 2, succeed, kinds)
		var mu sync.Mutex
		seen := map[core.RunID]int{}
		feed := make(chan error)
		go func() {
			feed <- e.Feed(context.Background(), "all", func(_ int, _ uint64, entries []core.Entry) error {
				mu.Lock()
				defer mu.Unlock()
				for i := range entries {
					seen[entries[i].Run]++
				}
				return nil
			})
		}()
		synctest.Wait()
		var ids []core.RunID
		for n := range 20 {
			s, err := e.Start(t.Context(), StartRequest{
				Definition: parentOf(3, `{"name":"kid"}`).definition(),
				Start:      core.Start{WorkflowID: fmt.Sprint("order-", n)},
			})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, s.Run)
			if found, err := e.Lookup(t.Context(), fmt.Sprint("order-", n)); err != nil || found != s.Run {
				t.Errorf("looked up %s, %v; started %s", found, err, s.Run)
			}
		}
		<-time.After(1500 * time.Millisecond)
		closeEngine(t, e)
		if err := <-feed; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		<-e.Done()
		e, _ = open(t, j, 2, succeed, kinds)
		watched := 0
		err := e.Watch(t.Context(), ids[0], 0, func(core.Entry) error { watched++; return nil })
		if err != nil || watched == 0 {
			t.Errorf("%d entries watched, %v", watched, err)
		}
		for _, id := range ids {
			if out, err := e.Result(t.Context(), id); err != nil || out.Phase != core.RunSucceeded {
				t.Fatal(out, err)
			}
		}
		page, err := e.List(t.Context(), journal.Query{Limit: 200})
		if err != nil || len(page.Runs) != 80 {
			t.Errorf("%d runs are listed, %v", len(page.Runs), err)
		}
		homes := map[int]int{}
		for _, r := range page.Runs {
			homes[r.Partition]++
		}
		if len(homes) != 4 {
			t.Errorf("runs by partition: %v", homes)
		}
		for i := range 30 {
			q := journal.Query{Limit: 7}
			total := 0
			for range 20 {
				page, err := e.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if total += len(page.Runs); !page.More {
					break
				}
				q.After = page.Runs[len(page.Runs)-1].ID
			}
			if total != 80+i {
				t.Fatalf("%d runs on all pages, want %d", total, 80+i)
			}
			mustStart(t, e, flow("one", nap(time.Hour)))
		}
		<-time.After(10 * time.Second)
		if s := e.Stats(); s.Live != 0 || s.Queued != 0 || s.Behind != 0 || s.Seq == 0 {
			t.Errorf("%+v", s)
		}
		mu.Lock()
		if len(seen) == 0 {
			t.Error("the feed has seen nothing")
		}
		mu.Unlock()
		closeEngine(t, e)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPartitionsOpenAgain checks that the other partitions stay open if one cannot be opened, because somebody else
// owns it, and that a second Open opens only that one.
func TestPartitionsOpenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := memory.NewPartitions(3)
		lease, err := j.Acquire(t.Context(), 1, "somebody else")
		if err != nil {
			t.Fatal(err)
		}
		recovered := 0
		e, err := New(Config{
			Journal: j, Kinds: plans, BeforeRecovery: func(context.Context) error { recovered++; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Open(t.Context()); !errors.Is(err, journal.ErrHeld) {
			t.Fatal(err)
		}
		if err := j.Release(t.Context(), 1, lease.Epoch); err != nil {
			t.Fatal(err)
		}
		if err := e.Open(t.Context()); err != nil || recovered != 1 {
			t.Fatalf("%v, recovered %d times", err, recovered)
		}
		for n := range 9 {
			req := StartRequest{Definition: flow("one", nap(time.Second)).definition()}
			req.WorkflowID = fmt.Sprint(n)
			if _, err := e.Start(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		closeEngine(t, e)
	})
}
