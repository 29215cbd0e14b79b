package service

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

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

const orderFlow = `pawl: 1
name: order
timeout: 2h
input: {type: object, properties: {n: {type: integer, default: 7}}}
steps:
  - {name: first, noop: {}}
  - {name: broken, needs: [first], fail: {kind: error, message: no paper}, retry: "fixed(3, 10s)", continueOn: [error]}
  - {name: approval, needs: [first], wait: {event: approved}, timeout: 30m}
  - {name: nap, needs: [approval], sleep: 5m}
  - {name: each, needs: [first], forEach: "${{ 1..3 }}", noop: {}}
output: {n: "${{ input.n }}"}
`

// readFlow makes a stored flow ready.
func readFlow(d journal.Definition) (*Prepared, error) {
	doc, err := flow.Parse(d.Name+".yaml", d.Source)
	if err != nil {
		return nil, err
	}
	def, err := flow.Compile(doc)
	if err != nil {
		return nil, err
	}
	w := &Prepared{Definition: def, Begin: doc.Start}
	for _, s := range doc.Steps {
		w.Plan = append(w.Plan, api.PlannedStep{Name: s.Name, Needs: s.Needs})
	}
	w.Rerun = func(earlier *core.Run, steps []string, from bool) ([]core.Kept, error) {
		return flow.Rerun(doc, earlier, steps, from)
	}
	return w, nil
}

// bed has an engine with both services: the embedded one, and one that reads the same journal.
type bed struct {
	*testing.T
	journal *memory.Journal
	engine  *engine.Engine
	run     *Embedded
	beside  *File
}

func now() core.Time { return policy.At(time.Now()) }

func newBed(t *testing.T) *bed {
	t.Helper()
	j := memory.New()
	compile := func(d journal.Definition) (*core.Definition, error) {
		w, err := readFlow(d)
		if err != nil {
			return nil, err
		}
		return w.Definition, nil
	}
	e, err := engine.New(engine.Config{Journal: j, Kinds: map[string]engine.Kind{journal.KindFlow: {Compile: compile}}})
	if err != nil {
		t.Fatal(err)
	}
	pool := worker.NewPool(worker.PoolConfig{Reporter: e})
	e.Serve("", pool)
	if err := e.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(pool.Close(ctx), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return &bed{t, j, e, NewEmbedded(e, readFlow, now), NewFile(j, readFlow, time.Now)}
}

// both calls fn with each of the two services.
func (b *bed) both(fn func(name string, s api.Service)) {
	fn("embedded", b.run)
	fn("file", b.beside)
}

func definition(source string) api.Definition {
	return api.Definition{ID: flow.ID([]byte(source)).String(), Kind: journal.KindFlow, Name: "order", Source: source}
}

func (b *bed) start(r api.StartRequest) string {
	b.Helper()
	r.Definition = definition(orderFlow)
	started, err := b.run.Start(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	return started.Run
}

// code checks that the error is an *api.Error with the code.
func (b *bed) code(what string, err error, want api.Code) {
	b.Helper()
	var own *api.Error
	if !errors.As(err, &own) || own.Code != want {
		b.Errorf("%s: %v, want an error of code %s", what, err, want)
	}
}

func step(t *testing.T, r *api.Run, key string) *api.Step {
	t.Helper()
	for _, s := range r.Steps {
		if s.Step == key {
			return s
		}
	}
	t.Fatalf("run %s has no step %s", r.Run, key)
	return nil
}

func (b *bed) mustRun(s api.Service, name string) *api.Run {
	b.Helper()
	r, err := s.Run(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// TestRunIsExplained checks that both services explain a run in the same way.
func TestRunIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		id := b.start(api.StartRequest{
			WorkflowID: "order-42", Key: "k", Timeout: &policy.Limit{After: time.Hour, Origin: GivenTimeout},
			Actor: "ada",
		})
		<-time.After(15 * time.Second)
		if err := b.run.Operate(t.Context(), id, api.Operation{
			Operation: api.OpExtend, Step: "approval", Limit: "wait", By: api.Extension(-10 * time.Minute),
			Actor: "bob", Reason: "hurry",
		}); err != nil {
			t.Fatal(err)
		}
		var texts []string
		b.both(func(name string, s api.Service) {
			r := b.mustRun(s, "order-42")
			if r.Run != id || r.Phase != api.RunRunning && r.Phase != api.RunWaiting ||
				r.Kind != journal.KindFlow || len(r.Plan) != 5 {
				t.Errorf("%s: %+v", name, r)
			}
			if d := r.Binding; d == nil || d.Limit != "run" || d.Origin != GivenTimeout || d.After.Std() != time.Hour ||
				d.At.Sub(r.CreatedAt) != time.Hour {
				t.Errorf("%s: the run is bound by %+v", name, r.Binding)
			}
			broken := step(t, r, "broken")
			if len(broken.Attempts) != 2 || broken.Phase != api.StepBackingOff ||
				broken.MaxAttempts != 3 || broken.NextAt == 0 ||
				broken.Attempts[0].Why != "no paper" ||
				broken.Attempts[0].NextAt.Sub(broken.Attempts[0].EndedAt) != 10*time.Second {
				t.Errorf("%s: %+v", name, broken)
			}
			if d := step(t, r, "approval").Binding; d == nil || d.Limit != "wait" ||
				d.At.Sub(r.CreatedAt) != 20*time.Minute {
				t.Errorf("%s: the wait is bound by %+v", name, d)
			}
			if each := step(t, r, "each"); each.Items != 3 || each.Kind != api.KindGroup {
				t.Errorf("%s: %+v", name, each)
			}
			if item := step(t, r, "each[1]"); item.Group != "each" || item.Item == nil || *item.Item != 1 {
				t.Errorf("%s: %+v", name, item)
			}
			if n := len(r.Operations); n != 1 || r.Operations[0].Actor != "bob" || len(r.Operations[0].Deadlines) != 1 {
				t.Errorf("%s: %+v", name, r.Operations)
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		})
		if texts[0] != texts[1] {
			t.Errorf("the services differ:\n%s\n%s", texts[0], texts[1])
		}
		var back api.Run
		if err := json.Unmarshal([]byte(texts[0]), &back); err != nil {
			t.Error(err)
		}
	})
}

// TestRunSaysWhy checks that a run has a sentence that says why it ended as it did.
func TestRunSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		id := b.start(api.StartRequest{})
		<-time.After(time.Hour)
		b.both(func(name string, s api.Service) {
			r := b.mustRun(s, id)
			if r.Phase != api.RunFailed || !strings.Contains(r.Why, `step "approval" timed out`) ||
				!strings.Contains(r.Why, "order.yaml:8") {
				t.Errorf("%s: %s: %s", name, r.Phase, r.Why)
			}
			if s := step(t, r, "broken"); s.Why != "all 3 attempts are used up; the last one: no paper" {
				t.Errorf("%s: %s", name, s.Why)
			}
			out, err := s.Wait(t.Context(), id)
			if err != nil || out.Phase != api.RunFailed || out.Run != id {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
		})
	})
}

// TestWatchFromAPosition checks that a watcher can begin after any event. It gets every later event once and in order.
func TestWatchFromAPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		id := b.start(api.StartRequest{})
		type got struct {
			name   string
			after  int
			events []api.Event
			err    error
		}
		results := make(chan got, 100)
		watching := 0
		for _, then := range []func(){
			func() {},
			func() { <-time.After(15 * time.Second) },
			func() {
				if err := b.run.Operate(t.Context(), id, api.Operation{Operation: api.OpTerminate}); err != nil {
					t.Fatal(err)
				}
			},
		} {
			then()
			at := b.mustRun(b.run, id).Events
			for after := range at + 1 {
				b.both(func(name string, s api.Service) {
					watching++
					go func() {
						g := got{name: name, after: after}
						g.err = s.Watch(t.Context(), id, after,
							func(ev api.Event) error { g.events = append(g.events, ev); return nil })
						results <- g
					}()
				})
			}
		}
		last := b.mustRun(b.run, id).Events
		for range watching {
			g := <-results
			if g.err != nil || len(g.events) != last-g.after {
				t.Errorf("%s after %d: %d of %d events, %v", g.name, g.after, len(g.events), last-g.after, g.err)
			}
			for i, ev := range g.events {
				if ev.Seq != g.after+i+1 || ev.Run != id {
					t.Fatalf("%s after %d: event %d is %+v", g.name, g.after, i, ev)
				}
			}
		}
		boom := errors.New("boom")
		b.both(func(name string, s api.Service) {
			if err := s.Watch(t.Context(), id, 3, func(api.Event) error { return boom }); !errors.Is(err, boom) ||
				err.Error() != "boom" {
				t.Errorf("%s: what the caller returned became %v", name, err)
			}
			b.code(name, s.Watch(t.Context(), id, -1, nil), api.CodeInvalid)
		})
	})
}

// TestSlowWatcherGetsAll checks that a watcher that is further behind than the kept events gets the older ones from the
// history.
func TestSlowWatcherGetsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		long := strings.Replace(orderFlow, "1..3", fmt.Sprintf("1..%d", keptEvents), 1)
		started, err := b.run.Start(t.Context(), api.StartRequest{Definition: definition(long)})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = b.run.Watch(t.Context(), started.Run, 0, func(ev api.Event) error {
			if n++; n == 2 {
				<-time.After(time.Minute)
				b.mustRun(b.run, started.Run) // somebody else has the trail follow
			}
			if ev.Seq != n {
				t.Fatalf("event %d is number %d", n, ev.Seq)
			}
			return nil
		})
		if r := b.mustRun(b.run, started.Run); err != nil || n != r.Events || n < 3*keptEvents {
			t.Errorf("%d of %d events: %v", n, r.Events, err)
		}
	})
}

// TestRunsByPages checks that page by page, a list shows every run, while more runs begin.
func TestRunsByPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var want []string
		for range 25 {
			want = append(want, b.start(api.StartRequest{}))
			<-time.After(200 * time.Millisecond)
		}
		slices.Reverse(want)
		b.both(func(name string, s api.Service) {
			var listed []string
			q := api.Query{Limit: 10}
			for {
				page, err := s.Runs(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Runs {
					listed = append(listed, r.Run)
				}
				if page.Next == "" {
					break
				}
				q.Cursor = page.Next
				b.start(api.StartRequest{}) // no later page has it
			}
			want = want[:25]
			if got := listed[len(listed)-25:]; !slices.Equal(got, want) {
				t.Errorf("%s: listed %d runs", name, len(listed))
			}
			_, err := s.Runs(t.Context(), api.Query{Cursor: "forged"})
			b.code(name+": a forged cursor", err, api.CodeInvalid)
			_, err = s.Runs(t.Context(), api.Query{Phases: []api.RunPhase{"asleep"}})
			b.code(name+": an unknown phase", err, api.CodeInvalid)
			page, err := s.Runs(t.Context(), api.Query{Phases: []api.RunPhase{api.RunSucceeded}})
			if err != nil || len(page.Runs) != 0 {
				t.Errorf("%s: %+v, %v", name, page, err)
			}
		})
	})
}

// TestNames checks that a run is found by each of its names. A name of no run or of several runs is refused.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.both(func(name string, s api.Service) {
			_, err := s.Run(t.Context(), "@last")
			b.code(name+": no run yet", err, api.CodeNotFound)
		})
		first := b.start(api.StartRequest{WorkflowID: "order-42"})
		<-time.After(time.Hour)
		second := b.start(api.StartRequest{WorkflowID: "order-42"})
		<-time.After(time.Second)
		third := b.start(api.StartRequest{})
		b.both(func(name string, s api.Service) {
			for given, want := range map[string]string{
				first: first, second: second, "order-42": second, "@last": third, first[:18]: first,
				strings.ToUpper(second[:20]): second,
			} {
				if r, err := s.Run(t.Context(), given); err != nil || r.Run != want {
					t.Errorf("%s: %q is %v, %v", name, given, r, err)
				}
			}
			for given, want := range map[string]api.Code{
				"": api.CodeInvalid, first[:4]: api.CodeInvalid, second[:6]: api.CodeInvalid,
				"nobody":   api.CodeNotFound,
				"ffffffff": api.CodeNotFound, core.RunID{1}.String(): api.CodeNotFound,
			} {
				_, err := s.Run(t.Context(), given)
				b.code(fmt.Sprintf("%s: %q", name, given), err, want)
				_, err = s.Wait(t.Context(), given)
				b.code(fmt.Sprintf("%s: wait for %q", name, given), err, want)
			}
		})
	})
}

// TestChanges checks that methods that change something work with the embedded service. The service of a file refuses
// them.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		ctx := t.Context()
		id := b.start(api.StartRequest{WorkflowID: "order-42", Input: json.RawMessage(`{"n":8}`)})
		_, err := b.run.Start(ctx, api.StartRequest{Definition: definition(orderFlow), WorkflowID: "order-42"})
		b.code("a workflow id that is taken", err, api.CodeConflict)
		_, err = b.run.Start(ctx, api.StartRequest{
			Definition: definition(orderFlow),
			Input:      json.RawMessage(`{"n":"x"}`),
		})
		b.code("an input that does not fit", err, api.CodeInvalid)
		_, err = b.run.Start(ctx, api.StartRequest{Definition: definition(orderFlow), Input: []byte(`{"n":`)})
		b.code("an input that is not JSON", err, api.CodeInvalid)
		err = b.run.Send(ctx, id, api.SendRequest{Name: "approved", Payload: []byte("{")})
		b.code("an event that is not JSON", err, api.CodeInvalid)
		b.code("an output that is not JSON", b.run.Operate(ctx, id, api.Operation{
			Operation: api.OpComplete, Step: "approval", Output: []byte("{"),
		}), api.CodeInvalid)
		_, err = b.run.Start(ctx, api.StartRequest{Definition: api.Definition{ID: "zz"}})
		b.code("no definition", err, api.CodeInvalid)
		_, err = b.run.Restart(ctx, id, api.RestartRequest{})
		b.code("a restart of an open run", err, api.CodeConflict)
		b.code("an unknown operation", b.run.Operate(ctx, id, api.Operation{Operation: "dance"}), api.CodeInvalid)
		b.code("an unknown limit", b.run.Operate(ctx, id, api.Operation{Operation: api.OpExtend, Limit: "x"}),
			api.CodeInvalid)
		err = b.run.Operate(ctx, id, api.Operation{Operation: api.OpSkip, Step: "x"})
		if b.code("an unknown step", err, api.CodeNotFound); !strings.Contains(err.Error(), `no step "x"`) {
			t.Error(err)
		}
		b.code("an operation that does not fit", b.run.Operate(ctx, id, api.Operation{Operation: api.OpResume}),
			api.CodeConflict)
		b.code("a signal without a name", b.run.Send(ctx, id, api.SendRequest{}), api.CodeInvalid)
		if err := b.run.Send(ctx, "order-42",
			api.SendRequest{Name: "approved", Payload: json.RawMessage(`{"by":"ada"}`)}); err != nil {
			t.Fatal(err)
		}
		out, err := b.run.Wait(ctx, "order-42")
		if err != nil || out.Phase != api.RunSucceeded || string(out.Output) != `{"n":8}` {
			t.Fatalf("%+v %v", out, err)
		}
		b.code("a signal to an ended run", b.run.Send(ctx, id, api.SendRequest{Name: "approved"}), api.CodeRunClosed)

		again, err := b.run.Restart(ctx, id, api.RestartRequest{From: "approval", Actor: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		r := b.mustRun(b.run, again.Run)
		if string(r.Input) != `{"n":8}` || !step(t, r, "first").Kept || r.WorkflowID != "order-42" {
			t.Errorf("%+v", r)
		}
		_, err = b.run.Restart(ctx, id, api.RestartRequest{})
		b.code("a workflow id that is taken again", err, api.CodeConflict)
		if err := b.run.Operate(ctx, again.Run, api.Operation{Operation: api.OpTerminate, Actor: "bob"}); err != nil {
			t.Fatal(err)
		}
		_, err = b.run.Restart(ctx, again.Run, api.RestartRequest{From: "nothing"})
		b.code("an unknown step", err, api.CodeInvalid)
		if st, err := b.run.Stats(ctx); err != nil || st.Seq == 0 {
			t.Errorf("%+v %v", st, err)
		}
		d, err := b.run.Definition(ctx, r.Definition)
		if err != nil || d.Name != "order" || d.Source != orderFlow {
			t.Errorf("%+v %v", d, err)
		}
		_, err = b.run.Definition(ctx, strings.Repeat("0", 32))
		b.code("an unknown definition", err, api.CodeNotFound)

		_, err = b.beside.Start(ctx, api.StartRequest{})
		b.code("start", err, api.CodeReadOnly)
		_, err = b.beside.Restart(ctx, id, api.RestartRequest{})
		b.code("restart", err, api.CodeReadOnly)
		_, err = b.beside.Stats(ctx)
		b.code("stats", err, api.CodeReadOnly)
		b.code("operate", b.beside.Operate(ctx, id, api.Operation{Operation: api.OpCancelGracefully}), api.CodeReadOnly)
		b.code("send", b.beside.Send(ctx, id, api.SendRequest{Name: "x"}), api.CodeReadOnly)
	})
}
