package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestChanges checks that a stream of all runs goes on after it was cut, without a gap and without a repetition.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		ctx, cancel := context.WithCancel(t.Context())
		var got []api.Change
		ended := make(chan error, 1)
		go func() {
			ended <- b.client.Changes(ctx, api.Query{Workflow: "order"}, "", func(c api.Change) error {
				got = append(got, c)
				return nil
			})
		}()
		synctest.Wait()
		var runs []string
		for range 4 {
			st, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, st.Run)
			<-time.After(15 * time.Second)
			b.listener.Cut()
			synctest.Wait() // the client notices before it sends anything more
		}
		<-time.After(time.Hour)
		synctest.Wait()
		cancel()
		if err := <-ended; api.CodeOf(err) != api.CodeCancelled {
			t.Error(err)
		}
		events := map[string][]int{}
		for i, c := range got {
			switch {
			case c.Missed:
				t.Errorf("change %d is missed", i)
			case c.Event == nil && i > 0:
				t.Errorf("change %d is a second beginning", i)
			case c.Event != nil:
				events[c.Event.Run] = append(events[c.Event.Run], c.Event.Seq)
			}
		}
		for _, run := range runs {
			r, err := b.embedded.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			var want []int
			for n := range r.Events {
				want = append(want, n+1)
			}
			if !slices.Equal(events[run], want) {
				t.Errorf("of run %s came the events %v of %d", run, events[run], r.Events)
			}
		}
		err := b.client.Changes(t.Context(), api.Query{WillMiss: true}, "", nil)
		if api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("a query that is not for streams: %v", err)
		}
		stop := errors.New("stop")
		if err := b.client.Changes(t.Context(), api.Query{}, "", func(api.Change) error { return stop }); err != stop {
			t.Errorf("what the caller returned comes back as %v", err)
		}
	})
}

// TestWaitForNews checks that a run that is asked for with a wait is answered when something happens in it.
func TestWaitForNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		st, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		r, err := b.client.Run(t.Context(), st.Run)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(wait string, after int) (events int, took time.Duration) {
			from := time.Now()
			var out api.Run
			_, _, text := b.plain("GET", fmt.Sprintf("/api/v1/runs/%s?wait=%s&after=%d", st.Run, wait, after), "")
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				t.Fatal(err, text)
			}
			return out.Events, time.Since(from)
		}
		if n, took := ask("5m", r.Events-1); n != r.Events || took != 0 {
			t.Errorf("what has happened is told after %s, up to event %d", took, n)
		}
		if n, took := ask("3s", r.Events); n != r.Events || took != 3*time.Second {
			t.Errorf("nothing has happened: that is told after %s, up to event %d", took, n)
		}
		if n, took := ask("5m", r.Events); n <= r.Events || took != 6*time.Second {
			t.Errorf("the next attempt is told after %s, up to event %d", took, n)
		}
	})
}

// TestChangedSteps checks that who has a run gets the steps alone that may have changed, and the whole run where
// something has happened to the run itself.
func TestChangedSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		start := api.StartRequest{Definition: definition(orderFlow), Input: []byte(`{"n":3}`)}
		st, err := b.client.Start(t.Context(), start)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ask := func(after int) (r api.Run, steps string) {
			t.Helper()
			_, _, text := b.plain("GET", fmt.Sprintf("/api/v1/runs/%s?changed=true&after=%d", st.Run, after), "")
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			for _, s := range r.Steps {
				steps += s.Step + " "
			}
			return r, steps
		}
		first, all := ask(0)
		if first.Partial || !strings.Contains(all, "each[2]") || first.Input == nil {
			t.Errorf("who has nothing gets %s (partial: %t)", all, first.Partial)
		}
		if same, steps := ask(first.Events); !same.Partial || steps != "broken approval " || same.Input != nil {
			t.Errorf("nothing has happened: %s (partial: %t)", steps, same.Partial)
		}
		<-time.After(25 * time.Second) // broken has been tried again, and ends
		synctest.Wait()
		r, steps := ask(first.Events)
		if !r.Partial || steps != "broken approval " || r.Steps[0].Phase != api.StepFailed {
			t.Errorf("after two more attempts: %s (partial: %t)", steps, r.Partial)
		}
		op := api.Operation{Operation: api.OpPause}
		if err := b.client.Operate(t.Context(), st.Run, op); err != nil {
			t.Fatal(err)
		}
		paused, steps := ask(r.Events)
		if !paused.Partial || steps != "approval " {
			t.Errorf("after a pause: %s (partial: %t)", steps, paused.Partial)
		}
		op = api.Operation{Operation: api.OpCancel}
		if err := b.client.Operate(t.Context(), st.Run, op); err != nil {
			t.Fatal(err)
		}
		if r, steps := ask(paused.Events); r.Partial || !strings.HasPrefix(steps, all) {
			t.Errorf("after a cancellation: %s (partial: %t)", steps, r.Partial)
		}
	})
}

// TestAsOf checks that a run is told as it was after each of its events, up to the last one, after which it is as it is
// now.
func TestAsOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		start := api.StartRequest{Definition: definition(orderFlow), Input: []byte(`{"n":3}`)}
		st, err := b.client.Start(t.Context(), start)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(25 * time.Second)
		synctest.Wait()
		now, err := b.client.Run(t.Context(), st.Run)
		if err != nil {
			t.Fatal(err)
		}
		steps, at, ended := 0, api.Time(0), 0
		for event := 1; event <= now.Events; event++ {
			r, err := b.client.RunAt(t.Context(), st.Run, event)
			if err != nil {
				t.Fatal(err)
			}
			if r.AsOf == nil || r.AsOf.Seq < event || r.AsOf.Seq != r.Events || r.AsOf.Time < at ||
				len(r.Steps) < steps || r.Says == nil {
				t.Fatalf("after event %d it has %d steps, and is as of %+v", event, len(r.Steps), r.AsOf)
			}
			steps, at = len(r.Steps), r.AsOf.Time
			for _, s := range r.Steps {
				if s.Step == "broken" && s.Phase == api.StepFailed {
					ended++
				}
			}
		}
		if ended == 0 || ended == now.Events {
			t.Errorf("the step that is broken has failed after %d of %d events", ended, now.Events)
		}
		last, err := b.client.RunAt(t.Context(), st.Run, now.Events)
		if err != nil {
			t.Fatal(err)
		}
		last.AsOf = nil
		if was, is := jsonOf(t, last), jsonOf(t, now); was != is {
			t.Errorf("after its last event it is\n%s\nand now\n%s", was, is)
		}
		if _, err = b.client.RunAt(t.Context(), st.Run, now.Events+1); !errors.Is(err, api.Sentinel(api.CodeInvalid)) {
			t.Errorf("an event that has not happened: %v", err)
		}
	})
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCompare checks that two runs are compared, the older one first, and a run with the one before it.
func TestCompare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var runs []string
		for _, input := range []string{`{"n":1}`, `{"n":2}`} {
			start := api.StartRequest{Definition: definition(orderFlow), Input: []byte(input)}
			st, err := b.client.Start(t.Context(), start)
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, st.Run)
			<-time.After(time.Second)
		}
		for _, path := range []string{runs[1] + "/diff", runs[0] + "/diff?with=" + runs[1]} {
			var c api.Comparison
			_, _, text := b.plain("GET", "/api/v1/runs/"+path, "")
			if err := json.Unmarshal([]byte(text), &c); err != nil || c.A != runs[0] || c.B != runs[1] {
				t.Fatal(err, text)
			}
			if d := c.Differences[0]; d != (api.Difference{What: "input", A: `{"n":1}`, B: `{"n":2}`}) {
				t.Errorf("%s: the first difference is %+v", path, d)
			}
		}
		if status, _, text := b.plain("GET", "/api/v1/runs/"+runs[0]+"/diff", ""); status != 404 {
			t.Errorf("of the first run: %d %s", status, text)
		}
	})
}

// TestSizesOfALongRun checks how much a page has to load of a run of ten thousand steps: at first, and for an event.
func TestSizesOfALongRun(t *testing.T) {
	nightly.Only(t, "a run of ten thousand steps")
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		long := strings.Replace(orderFlow, "1..3", "1..10000", 1)
		st, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(long)})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		path := "/api/v1/runs/" + st.Run
		_, head, first := b.plain("GET", path, "", "Accept-Encoding", "gzip")
		if head.Get("Content-Encoding") != "gzip" || len(first) > 200<<10 {
			t.Errorf("the run has %d bytes at first, encoded as %q", len(first), head.Get("Content-Encoding"))
		}
		now, err := b.client.Run(t.Context(), st.Run)
		if err != nil || len(now.Steps) < 10_000 {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second) // an attempt follows
		synctest.Wait()
		_, _, event := b.plain("GET", fmt.Sprintf("%s?changed=true&after=%d", path, now.Events), "")
		if len(event) > 20<<10 || !strings.Contains(event, `"partial":true`) {
			t.Errorf("after an event there are %d bytes", len(event))
		}
		t.Logf("%d bytes at first, %d for an event", len(first), len(event))
	})
}
