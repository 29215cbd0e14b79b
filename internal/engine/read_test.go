package engine

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		p := flow("watch", task(), nap(time.Minute), task(), nap(time.Hour), task())
		id := mustStart(t, e, p)
		var wg sync.WaitGroup
		watch := func(delay time.Duration) {
			wg.Go(func() {
				<-time.After(delay)
				var got []core.Entry
				err := e.Watch(t.Context(), id, 0, func(en core.Entry) error { got = append(got, en); return nil })
				if err != nil {
					t.Error(err)
				}
				all, err := e.Entries(t.Context(), id, 0)
				if err != nil || len(all) != len(got) {
					t.Errorf("after %s: watched %d entries of %d, %v", delay, len(got), len(all), err)
				}
				for i := range got {
					if got[i].At != all[i].At {
						t.Errorf("entry %d differs", i)
					}
				}
			})
		}
		for _, d := range []time.Duration{0, time.Second, 10 * time.Minute, 61 * time.Minute, 2 * time.Hour} {
			watch(d)
		}
		wg.Wait()
		if err := e.Watch(t.Context(), core.RunID{1}, 0, nil); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		boom := errors.New("boom")
		if err := e.Watch(t.Context(), id, 0, func(core.Entry) error { return boom }); !errors.Is(err, boom) {
			t.Error(err)
		}
	})
}

// TestSlowWatcherMissesNothing checks that a watcher that is too slow for its buffer still sees every entry.
func TestSlowWatcherMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("long", append([]planStep{nap(time.Second)}, steps(3*watchBuffer)...)...))
		n := 0
		err := e.Watch(t.Context(), id, 0, func(core.Entry) error {
			if n++; n == 2 {
				<-time.After(time.Minute)
			}
			return nil
		})
		all, err2 := e.Entries(t.Context(), id, 0)
		if err != nil || err2 != nil || n != len(all) {
			t.Fatalf("saw %d of %d entries: %v %v", n, len(all), err, err2)
		}
	})
}

func TestListLookupInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed)
		defer closeEngine(t, e)
		want := map[core.RunID]bool{}
		for i := range 120 {
			want[mustStart(t, e, flow([]string{"a", "b"}[i%2], nap(time.Hour)))] = true
			if i%10 == 0 {
				<-time.After(300 * time.Millisecond) // some reach the view, some do not
			}
		}
		got := map[core.RunID]bool{}
		q := journal.Query{Limit: 7}
		for {
			page, err := e.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Runs {
				if got[r.ID] {
					t.Fatalf("run %s twice", r.ID)
				}
				got[r.ID] = true
			}
			if !page.More {
				break
			}
			q.After = page.Runs[len(page.Runs)-1].ID
		}
		if len(got) != len(want) {
			t.Fatalf("listed %d of %d", len(got), len(want))
		}
		req := StartRequest{Definition: flow("x", nap(time.Hour)).definition()}
		req.WorkflowID = "order-7"
		started, err := e.Start(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, time.Minute, 2 * time.Hour} {
			<-time.After(wait)
			for _, name := range []string{"order-7", started.Run.String()} {
				if id, err := e.Lookup(t.Context(), name); err != nil || id != started.Run {
					t.Fatalf("lookup of %s after %s: %s %v", name, wait, id, err)
				}
			}
		}
		if _, err := e.Lookup(t.Context(), "nobody"); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		r, err := e.Inspect(t.Context(), started.Run)
		if err != nil || r.Phase != core.RunSucceeded || len(r.Steps) != 1 {
			t.Fatalf("%+v %v", r, err)
		}
		page, err := e.List(t.Context(), journal.Query{Workflow: "x", Phases: []core.RunPhase{core.RunSucceeded}})
		if err != nil || len(page.Runs) != 1 {
			t.Fatalf("%+v %v", page, err)
		}
		if d, err := e.Definition(t.Context(), r.Definition); err != nil || d.Name != "x" {
			t.Fatal(d, err)
		}
	})
}
