package server

import (
	"bytes"
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
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/history"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// tape records what a service answers, with the ids of runs in the order in which they were seen.
type tape struct {
	*bed
	s     api.Service
	lines []string
	ids   []string
}

// put records an answer, and checks the code of its error: "" for none.
func (p *tape) put(what string, want api.Code, v any, err error) {
	p.Helper()
	if got := api.CodeOf(err); got != want {
		p.Errorf("%s: %q (%v), want code %q", what, got, err, want)
	}
	text, failed := json.Marshal(v)
	if failed != nil {
		p.Fatal(failed)
	}
	line := fmt.Sprintf("%s: %s", what, text)
	if err != nil {
		var own *api.Error
		if !errors.As(err, &own) {
			p.Errorf("%s: %v is not an *api.Error", what, err)
			return
		}
		line = fmt.Sprintf("%s: %s %s hint=%q", what, own.Code, own, own.Hint)
	}
	for i, id := range p.ids {
		line = strings.ReplaceAll(line, id, fmt.Sprintf("RUN%d", i))
		line = strings.ReplaceAll(line, id[:18], fmt.Sprintf("R%d", i))
	}
	p.lines = append(p.lines, line)
}

func (p *tape) start(what string, want api.Code, r api.StartRequest) string {
	p.Helper()
	if r.Definition.ID == "" {
		r.Definition = definition(orderFlow)
	}
	started, err := p.s.Start(p.Context(), r)
	if err == nil && !slices.Contains(p.ids, started.Run) {
		p.ids = append(p.ids, started.Run)
	}
	p.put(what, want, started, err)
	return started.Run
}

func (p *tape) operate(what string, want api.Code, run string, op api.Operation) {
	p.Helper()
	foreseen, err := p.s.Forecast(p.Context(), run, api.ForecastRequest{Operation: &op})
	p.put("foreseen: "+what, want, foreseen, err)
	p.put(what, want, nil, p.s.Operate(p.Context(), run, op))
}

func (p *tape) run(what string, want api.Code, name string) {
	p.Helper()
	r, err := p.s.Run(p.Context(), name)
	p.put(what, want, r, err)
	text, err := p.s.History(p.Context(), name)
	p.put("the history of "+what, want, nil, err)
	if err != nil {
		return
	}
	if own, err := p.embedded.History(p.Context(), name); err != nil || !bytes.Equal(own, text) {
		p.Errorf("%s: the history is not the engine's (%v):\n%s\n%s", what, err, text, own)
	}
	if entries, err := history.Read(text); err != nil || entries[0].Run.String() != r.Run {
		p.Errorf("%s: %v: the history of run %s is\n%s", what, err, r.Run, text)
	}
}

// same runs a scenario with the embedded service and over HTTP, and compares everything that the two answered.
func same(t *testing.T, scenario func(p *tape)) {
	t.Helper()
	var tapes []*tape
	for _, over := range []string{"embedded", "http"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			p := &tape{bed: b, s: b.embedded}
			if over == "http" {
				p.s = b.client
			}
			scenario(p)
			tapes = append(tapes, p)
		})
	}
	if t.Failed() {
		return
	}
	if len(tapes[0].lines) != len(tapes[1].lines) || len(tapes[0].lines) == 0 {
		t.Fatalf("%d answers embedded and %d over HTTP", len(tapes[0].lines), len(tapes[1].lines))
	}
	for i, line := range tapes[0].lines {
		if over := tapes[1].lines[i]; over != line {
			t.Errorf("embedded and over HTTP:\n%s\n%s", line, over)
		}
	}
}

func TestStartsAreTheSame(t *testing.T) {
	same(t, func(p *tape) {
		p.run("no run yet", api.CodeNotFound, "@last")
		id := p.start("start", "", api.StartRequest{
			WorkflowID: "orders/42 ä%", Key: "k", Input: json.RawMessage(`{"n":8}`), Actor: "ada", Reason: "a <b>",
			Timeout: &policy.Limit{After: time.Hour, Origin: service.GivenTimeout},
			Labels:  map[string]string{"a/b": "c=d"}, Headers: map[string]string{"trace": "x"},
			Deadline: api.At(time.Now().Add(90 * time.Minute)), Origin: "here",
		})
		<-time.After(time.Second) // so that the beginning of its id is its own
		p.start("the key again", "", api.StartRequest{
			WorkflowID: "orders/42 ä%", Key: "k", Input: json.RawMessage(`{"n":8}`),
		})
		p.start("a workflow id that is taken", api.CodeConflict, api.StartRequest{WorkflowID: "orders/42 ä%"})
		p.start("use the open run", "", api.StartRequest{WorkflowID: "orders/42 ä%", UseExisting: true})
		p.start("an input that does not fit", api.CodeInvalid, api.StartRequest{Input: json.RawMessage(`{"n":"x"}`)})
		p.start("an unknown definition", api.CodeInvalid, api.StartRequest{Definition: api.Definition{ID: "zz"}})
		p.start("a flow that does not compile", api.CodeInvalid, api.StartRequest{
			Definition: definition("pawl: 1\nsteps: 7"),
		})
		p.start("a large input", api.CodeTooLarge, api.StartRequest{
			Input: json.RawMessage(`{"more":"` + strings.Repeat("y", 2<<20) + `"}`),
		})
		p.start("a label that is refused", api.CodeInvalid, api.StartRequest{Labels: map[string]string{"": "x"}})
		p.start("later", "", api.StartRequest{StartAt: api.At(time.Now().Add(time.Hour))})
		<-time.After(5 * time.Second)
		p.run("by workflow id", "", "orders/42 ä%")
		p.run("by the beginning", "", id[:18])
		p.run("the last one", "", "@last")
		p.run("nobody", api.CodeNotFound, "nobody")
		p.run("dots", api.CodeNotFound, "..")
		p.run("no name", api.CodeInvalid, "")
		p.run("too short", api.CodeInvalid, id[:4])
		p.run("no such id", api.CodeNotFound, core.RunID{1}.String())
		d, err := p.s.Definition(p.Context(), definition(orderFlow).ID)
		p.put("definition", "", d, err)
		d, err = p.s.Definition(p.Context(), strings.Repeat("0", 32))
		p.put("no such definition", api.CodeNotFound, d, err)
		d, err = p.s.Definition(p.Context(), "zz")
		p.put("no id of a definition", api.CodeInvalid, d, err)
		d, err = p.s.Definition(p.Context(), "")
		p.put("an empty id of a definition", api.CodeInvalid, d, err)
	})
}

func TestOperationsAreTheSame(t *testing.T) {
	same(t, func(p *tape) {
		id := p.start("start", "", api.StartRequest{WorkflowID: "w"})
		<-time.After(15 * time.Second)
		p.operate("pause", "", id, api.Operation{
			Operation: api.OpPause, StopClock: true, Actor: "bob", Reason: "lunch",
		})
		p.operate("pause again", api.CodeConflict, id, api.Operation{Operation: api.OpPause})
		p.operate("resume", "", "w", api.Operation{Operation: api.OpResume})
		p.operate("extend the run", "", id, api.Operation{Operation: api.OpExtend, By: api.Extension(time.Hour)})
		p.operate("extend a step", "", id, api.Operation{
			Operation: api.OpExtend, Step: "approval", Limit: "wait", By: api.Extension(-10 * time.Minute),
		})
		p.operate("take a deadline away", "", id, api.Operation{
			Operation: api.OpExtend, Step: "approval", Remove: true,
		})
		p.operate("an unknown limit", api.CodeInvalid, id, api.Operation{Operation: api.OpExtend, Limit: "x"})
		p.operate("an unknown step", api.CodeNotFound, id, api.Operation{Operation: api.OpSkip, Step: "x/y"})
		p.operate("now", "", id, api.Operation{Operation: api.OpNow, Step: "broken"})
		<-time.After(time.Second) // that attempt has failed too by then
		p.operate("a step's operation of a run", api.CodeNotFound, id, api.Operation{Operation: api.OpSkip})
		p.operate("a run's operation of a step", "", id, api.Operation{Operation: api.OpPause, Step: "approval"})
		p.operate("and back", "", id, api.Operation{Operation: api.OpResume})
		p.operate("set no policy", api.CodeInvalid, id, api.Operation{Operation: api.OpSetPolicy, Step: "approval"})
		var pol policy.Policy
		if err := json.Unmarshal([]byte(`{"retry":"fixed(9, 1s)"}`), &pol); err != nil {
			p.Fatal(err)
		}
		p.operate("set a policy of a step", "", id, api.Operation{
			Operation: api.OpSetPolicy, Step: "approval", Policy: &pol,
		})
		p.operate("fail", api.CodeConflict, id, api.Operation{
			Operation: api.OpFail, Step: "broken",
			Failure: &policy.Failure{Kind: policy.KindError, Message: "by hand", Details: json.RawMessage(`{"a":[1]}`)},
		})
		other := p.start("start another", "", api.StartRequest{})
		<-time.After(time.Second)
		p.operate("fail a step", "", other, api.Operation{
			Operation: api.OpFail, Step: "approval", Reason: "why",
			Failure: &policy.Failure{Kind: policy.KindFailed, Type: "T", Code: 7, Message: "by hand"},
		})
		<-time.After(time.Second)
		p.run("with the failed step", "", other)
		p.operate("complete", "", id, api.Operation{
			Operation: api.OpComplete, Step: "approval", Output: json.RawMessage(`{"by":"<ada>"}`),
		})
		<-time.After(time.Second)
		p.run("after that", "", id)
		_, err := p.s.Restart(p.Context(), id, api.RestartRequest{})
		p.put("restart an open run", api.CodeConflict, nil, err)
		p.operate("terminate", "", id, api.Operation{Operation: api.OpTerminate})
		p.operate("cancel an ended run", api.CodeRunClosed, id, api.Operation{Operation: api.OpCancelGracefully})
		p.operate("retry a step", "", id, api.Operation{Operation: api.OpRetryStep, Step: "broken"})
		<-time.After(time.Second) // that attempt has failed too by then
		p.operate("interrupt", "", id, api.Operation{Operation: api.OpCancel})
		<-time.After(time.Second)
		p.run("in the end", "", id)
		again, err := p.s.Restart(p.Context(), id, api.RestartRequest{From: "approval", Actor: "bob"})
		p.ids = append(p.ids, again.Run)
		p.put("restart", "", again, err)
		_, err = p.s.Restart(p.Context(), id, api.RestartRequest{From: "nothing"})
		p.put("restart from an unknown step", api.CodeInvalid, nil, err)
		for _, name := range []string{"nobody", "", ".."} {
			want := api.CodeNotFound
			if name == "" {
				want = api.CodeInvalid
			}
			p.operate("cancel "+name, want, name, api.Operation{Operation: api.OpCancelGracefully})
			_, err = p.s.Restart(p.Context(), name, api.RestartRequest{})
			p.put("restart "+name, want, nil, err)
			p.put("send to "+name, want, nil, p.s.Send(p.Context(), name, api.SendRequest{Name: "x"}))
		}
	})
}

// TestUnknownOperations checks that an operation that does not exist is refused by name, and is not taken for a path.
func TestUnknownOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []api.Service{b.embedded, b.client} {
			for _, name := range []string{"", "dance", "retry", "restart", "events", "set-policy"} {
				for _, step := range []string{"", "first"} {
					err := s.Operate(t.Context(), started.Run, api.Operation{Operation: name, Step: step})
					if api.CodeOf(err) != api.CodeInvalid {
						t.Errorf("%T: operation %q of step %q: %v", s, name, step, err)
					}
				}
			}
		}
		if page, err := b.client.Runs(t.Context(), api.Query{}); err != nil || len(page.Runs) != 1 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

func TestEventsAreTheSame(t *testing.T) {
	same(t, func(p *tape) {
		ctx := p.Context()
		id := p.start("start", "", api.StartRequest{})
		<-time.After(time.Second)
		r, err := p.s.Run(ctx, id)
		if err != nil {
			p.Fatal(err)
		}
		enough := errors.New("enough")
		for after := range r.Events {
			var got []api.Event
			err := p.s.Watch(ctx, id, after, func(ev api.Event) error {
				got = append(got, ev)
				if ev.Seq == r.Events {
					return enough
				}
				return nil
			})
			if !errors.Is(err, enough) || err.Error() != "enough" {
				p.Errorf("what the caller returned became %v", err)
			}
			p.put(fmt.Sprintf("events after %d", after), "", got, nil)
		}
		done := make(chan []api.Event)
		go func() {
			var got []api.Event
			err := p.s.Watch(ctx, id, r.Events, func(ev api.Event) error {
				if len(got) == 3 {
					<-time.After(10 * time.Minute) // it takes its time, and misses nothing
				}
				got = append(got, ev)
				return nil
			})
			if err != nil {
				p.Error(err)
			}
			done <- got
		}()
		p.put("send", "", nil, p.s.Send(ctx, id, api.SendRequest{
			Name: "approved", ID: "e1", Payload: json.RawMessage(`{"by":"ada & bob"}`), Actor: "ada", Reason: "now",
		}))
		p.put("send again", "", nil, p.s.Send(ctx, id, api.SendRequest{Name: "approved", ID: "e1"}))
		p.put("an event without a name", api.CodeInvalid, nil, p.s.Send(ctx, id, api.SendRequest{}))
		p.put("a large event", api.CodeTooLarge, nil, p.s.Send(ctx, id, api.SendRequest{
			Name: "x", Payload: json.RawMessage(`"` + strings.Repeat("y", 2<<20) + `"`),
		}))
		out, err := p.s.Wait(ctx, id)
		p.put("wait", "", out, err)
		p.put("events until the end", "", <-done, nil)
		out, err = p.s.Wait(ctx, id)
		p.put("wait for an ended run", "", out, err)
		p.put("an event for an ended run", api.CodeRunClosed, nil, p.s.Send(ctx, id, api.SendRequest{Name: "approved"}))
		nothing := func(api.Event) error { return nil }
		p.put("watch before the first event", api.CodeInvalid, nil, p.s.Watch(ctx, id, -1, nothing))
		p.put("watch nobody", api.CodeNotFound, nil, p.s.Watch(ctx, "nobody", 0, nothing))
		p.put("watch no name", api.CodeInvalid, nil, p.s.Watch(ctx, "", 0, nothing))
		_, err = p.s.Wait(ctx, "nobody")
		p.put("wait for nobody", api.CodeNotFound, nil, err)
		_, err = p.s.Wait(ctx, "")
		p.put("wait for no name", api.CodeInvalid, nil, err)
	})
}

// TestGivingUpIsTheSame checks that every caller that gives up gets the code for that, wherever the engine is.
func TestGivingUpIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		started, err := b.client.Start(t.Context(), api.StartRequest{Definition: definition(orderFlow)})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []api.Service{b.embedded, b.client} {
			for what, call := range map[string]func(ctx context.Context) error{
				"wait": func(ctx context.Context) error { _, err := s.Wait(ctx, started.Run); return err },
				"watch": func(ctx context.Context) error {
					return s.Watch(ctx, started.Run, 0, func(api.Event) error { return nil })
				},
			} {
				for _, after := range []time.Duration{0, time.Second, 3 * time.Minute} {
					ctx, cancel := context.WithTimeout(t.Context(), after)
					err := call(ctx)
					cancel()
					if api.CodeOf(err) != api.CodeCancelled || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%T: %s for %s: %v", s, what, after, err)
					}
				}
			}
		}
	})
}

func TestListsAreTheSame(t *testing.T) {
	same(t, func(p *tape) {
		list := func(what string, want api.Code, q api.Query) string {
			page, err := p.s.Runs(p.Context(), q)
			next := page.Next
			page.Next = fmt.Sprint(next != "") // it holds an id
			p.put(what, want, page, err)
			return next
		}
		list("nothing", "", api.Query{})
		for i := range 7 {
			p.start("start", "", api.StartRequest{
				WorkflowID: fmt.Sprintf("w%d", i%3), UseExisting: true,
				Labels: map[string]string{"n": fmt.Sprint(i % 2)},
			})
			<-time.After(time.Minute)
			if i == 2 {
				p.operate("terminate", "", "w1", api.Operation{Operation: api.OpTerminate})
			}
		}
		next := list("a page", "", api.Query{Limit: 2})
		list("the next page", "", api.Query{Limit: 2, Cursor: next})
		list("a workflow", "", api.Query{Workflow: "order"})
		list("another workflow", "", api.Query{Workflow: "x y"})
		list("a workflow id", "", api.Query{WorkflowID: "w0"})
		list("phases", "", api.Query{Phases: []api.RunPhase{api.RunTerminated, api.RunSucceeded}})
		list("labels", "", api.Query{Labels: map[string]string{"n": "1"}})
		list("created", "", api.Query{
			CreatedFrom:   api.At(time.Now().Add(-6 * time.Minute)),
			CreatedBefore: api.At(time.Now().Add(-2 * time.Minute)),
		})
		list("stuck", "", api.Query{Stuck: true})
		list("deadline within", "", api.Query{DeadlineWithin: api.Duration(118 * time.Minute)})
		list("retrying", "", api.Query{Retrying: true})
		list("will miss", "", api.Query{WillMiss: true})
		list("input", "", api.Query{Input: map[string]string{"n": "7", "a.b": "x=y"}})
		list("no path", api.CodeInvalid, api.Query{Input: map[string]string{"a..b": "7"}})
		list("a large page", "", api.Query{Limit: 5000})
		list("a forged cursor", api.CodeInvalid, api.Query{Cursor: "forged"})
		list("an unknown phase", api.CodeInvalid, api.Query{Phases: []api.RunPhase{"asleep"}})
		list("a label that is refused", api.CodeInvalid, api.Query{
			Labels: map[string]string{strings.Repeat("n", 1000): "x"},
		})
		stats, err := p.s.Stats(p.Context())
		stats.Seq = 0 // how calls share batches is a matter of moments
		p.put("stats", "", stats, err)
	})
}
