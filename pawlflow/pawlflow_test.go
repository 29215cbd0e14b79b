package pawlflow_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/journal/memory"
	_ "github.com/pawl-dev/pawl/journal/sqlite"
	"github.com/pawl-dev/pawl/pawlflow"
	"github.com/pawl-dev/pawl/pawltest"
)

type greeting struct {
	Who string `json:"who"`
}

// parsed returns a flow of the steps given as YAML.
func parsed(t *testing.T, name, rest string) *flow.Document {
	t.Helper()
	doc, err := flow.Parse(name+".yaml", []byte("pawl: 1\nname: "+name+"\n"+rest))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestDefine runs a flow with a process, a function on a queue, a child flow and a child that is a function; closes the
// engine while it sleeps, and goes on in one that was never told of the flow.
func TestDefine(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	polite := pawlflow.Define[greeting, string](parsed(t, "polite",
		"input: {type: object, properties: {who: {type: string}}}\n"+
			"steps: [{name: say, exec: {command: [echo, \"dear ${{ input.who }}\"]}}]\n"+
			"output: ${{ trim(steps.say.output.stdout) }}\n"))
	loud := pawl.Define("loud", func(_ pawl.Context, in greeting) (string, error) {
		return strings.ToUpper(in.Who), nil
	})
	w := pawlflow.Define[greeting, []string](parsed(t, "greet", `
input: {type: object, required: [who], properties: {who: {type: string}, mark: {type: string, default: "!"}}}
steps:
  - name: mark
    task: {queue: words, type: Mark, input: {who: "${{ input.who + input.mark }}"}}
    retry: fixed(3, 1ms)
  - {name: nap, needs: mark, sleep: 300ms}
  - {name: polite, needs: nap, flow: {name: polite, input: {who: "${{ steps.mark.output.who }}"}}}
  - {name: loud, needs: nap, flow: {name: loud, input: {who: "${{ steps.mark.output.who }}"}}}
output: ["${{ steps.polite.output }}", "${{ steps.loud.output }}"]
`))
	config := pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "g.db"), Workflows: []pawl.Definition{polite, loud, w},
	}
	attempts := 0
	mark := pawl.Handle("Mark", func(_ context.Context, in greeting) (greeting, error) {
		if attempts++; attempts == 1 {
			return greeting{}, errors.New("not in the mood")
		}
		return greeting{"<" + in.Who + ">"}, nil
	})
	e, err := pawl.Open(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Serve("words", 1, mark); err != nil {
		t.Fatal(err)
	}
	r, err := w.Start(ctx, e, "g1", greeting{"ada"})
	if err != nil {
		t.Fatal(err)
	}
	for {
		d, err := e.DescribeRun(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Steps) > 1 && d.Steps[1].Phase == "suspended" {
			break
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	config.Workflows = []pawl.Definition{polite, loud}
	e, err = pawl.Open(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	r, err = w.Find(ctx, e, "g1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Result(ctx)
	if fmt.Sprint(got, err) != "[dear <ada!> <ADA!>] <nil>" || attempts != 2 {
		t.Errorf("%v, %v after %d attempts", got, err, attempts)
	}
}

// TestFlowFromBody checks that a function's body calls a flow as a child and sees its failure as that of any step.
func TestFlowFromBody(t *testing.T) {
	nap := pawlflow.Define[map[string]string, string](parsed(t, "nap",
		"steps:\n"+
			"  - {name: nap, sleep: 30d}\n"+
			"  - {name: end, needs: nap, when: input.end != 'well', fail: {message: badly, type: Nightmare}}\n"+
			"output: slept\n"))
	w := pawl.Define("w", func(ctx pawl.Context, end string) (string, error) {
		out, err := pawl.Child(ctx, "nap", nap, map[string]string{"end": end})
		if failed := (*pawl.StepError)(nil); errors.As(err, &failed) {
			return failed.Step + " " + string(failed.Phase), nil
		}
		return out, err
	})
	pawltest.RunWith(t, pawl.Config{Codec: veiled{}}, func(t *testing.T, e *pawltest.Env) {
		if got, err := run(t, e.Engine, w, "well"); got != "slept" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := run(t, e.Engine, w, "badly"); got != "nap failed" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestFlowEvents checks that a flow's values are JSON under every codec, and its own deadline holds.
func TestFlowEvents(t *testing.T) {
	w := pawlflow.Define[any, greeting](parsed(t, "wait",
		"timeout: 2h\n"+
			"steps: [{name: hello, wait: hello}]\n"+
			"output: ${{ steps.hello.output }}\n"))
	pawltest.RunWith(t, pawl.Config{Codec: veiled{}}, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		hello := client.SendRequest{Name: "hello", Payload: []byte(`{"who":"ada"}`)} // a flow's events are JSON
		if err := e.SendEvent(t.Context(), r.ID, hello); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Result(t.Context()); got.Who != "ada" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		from := time.Now()
		_, err = run(t, e.Engine, w, nil)
		if !errors.Is(err, pawl.ErrTimedOut) || time.Since(from) != 2*time.Hour ||
			!strings.Contains(err.Error(), "set at wait.yaml:3:10") {
			t.Errorf("after %s: %v", time.Since(from), err)
		}
	})
}

// TestFlowFake checks that a test can replace a flow's processes, and that time is skipped.
func TestFlowFake(t *testing.T) {
	var heard []string
	w := pawlflow.Define[any, string](parsed(t, "report",
		"steps: [{name: render, exec: ./render.sh, retry: \"exponential(3, 1h)\"}]\n"+
			"output: ${{ steps.render.output.page }}\n"))
	pawltest.RunWith(t, pawl.Config{Observer: pawl.Observer{AttemptEnded: func(a client.AttemptObservation) {
		heard = append(heard, fmt.Sprintf("%s%d %v", a.Step, a.Number, a.Failure))
	}}},
		func(t *testing.T, e *pawltest.Env) {
			pawltest.FakeStep[map[string]string](e, "render").Fail(errors.New("no ink")).Times(2).
				Return(map[string]string{"page": "1"})
			from := time.Now()
			if got, err := run(t, e.Engine, w, nil); got != "1" || err != nil || time.Since(from) != 3*time.Hour {
				t.Errorf("%q, %v after %s", got, err, time.Since(from))
			}
			if fmt.Sprint(heard) != "[render1 error: no ink render2 error: no ink render3 <nil>]" {
				t.Errorf("heard %q", heard)
			}
			pawltest.FakeStep[any](e, "render").Do(func(context.Context, client.AttemptInfo) (any, error) {
				panic("out of paper")
			})
			if _, err := run(t, e.Engine, w, nil); err == nil || !strings.Contains(err.Error(), "out of paper") {
				t.Errorf("%v", err)
			}
		})
}

// TestFlowFakeStays checks that a fake of a process that ignores its context is abandoned, as a step's function is.
func TestFlowFakeStays(t *testing.T) {
	w := pawlflow.Define[any, int](parsed(t, "w",
		"steps: [{name: a, exec: ./a, timeout: {startToClose: 1m}, retry: \"fixed(2, 1s)\"}]\n"+
			"output: ${{ steps.a.output }}\n"))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[int](e, "a").Do(func(_ context.Context, a client.AttemptInfo) (int, error) {
			if a.Number == 1 {
				<-time.After(2 * time.Minute)
			}
			return a.Number, nil
		})
		from := time.Now()
		if got, err := run(t, e.Engine, w, nil); got != 2 || err != nil || time.Since(from) != 65*time.Second {
			t.Errorf("%d, %v after %s", got, err, time.Since(from))
		}
		e.Skip(time.Minute) // the fake has gone by then
	})
}

// TestFlowInterceptedError checks that the error that an interceptor makes of a process's failure is the one that
// counts.
func TestFlowInterceptedError(t *testing.T) {
	w := pawlflow.Define[any, any](parsed(t, "w",
		"steps: [{name: a, http: \"http://127.0.0.1:1/\", retry: \"fixed(3, 1ms)\"}]\n"))
	calls := 0
	e, err := pawl.Open(t.Context(), pawl.Config{
		Database: "sqlite:" + filepath.Join(t.TempDir(), "w.db"),
		Intercept: func(
			ctx context.Context, _ client.AttemptInfo, next func(context.Context) ([]byte, error),
		) ([]byte, error) {
			calls++
			_, err := next(ctx)
			return nil, pawl.NonRetryable(fmt.Errorf("in short: %w", err))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if _, err := run(t, e, w, nil); err == nil || !strings.Contains(err.Error(), "in short: ") || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestFlowRerun checks that reruns keep the steps that the flow's graph says.
func TestFlowRerun(t *testing.T) {
	w := pawlflow.Define[any, any](parsed(t, "w",
		"steps: [{name: a, noop: {}}, {name: b, needs: a, sleep: 1h}, {name: c, needs: b, noop: {}}]\n"))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		r, err := w.Start(t.Context(), e, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		for from, want := range map[string]time.Duration{"a": time.Hour, "b": time.Hour, "c": 0} {
			id, err := e.RestartRun(t.Context(), r.ID, client.RestartRequest{From: from})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := e.AwaitRun(t.Context(), id); err != nil || time.Since(began) != want {
				t.Errorf("from %s on: %v after %s, want %s", from, err, time.Since(began), want)
			}
		}
		_, err = e.RestartRun(t.Context(), r.ID, client.RestartRequest{Steps: []string{"d"}})
		if !errors.Is(err, pawl.ErrNotFound) || !strings.HasSuffix(err.Error(), `no step "d": not_found`) {
			t.Errorf("%v", err)
		}
	})
}

// TestFlowForms checks that a flow with words of another system is kept in native ones, which need no one to know that
// system.
func TestFlowForms(t *testing.T) {
	doc, err := flow.Parse("m.yaml", []byte(`pawl: 1
name: m
steps:
  - name: a
    exec: ./a
    temporal: {startToCloseTimeout: 10s, retryPolicy: {maximumAttempts: 2, initialInterval: 1h}}
`), dialect.Forms()...)
	if err != nil {
		t.Fatal(err)
	}
	w := pawlflow.Define[any, any](doc)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		a := pawltest.FakeStep[any](e, "a").Fail(errors.New("no"))
		if _, err := w.Start(t.Context(), e, "m", nil); err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		e.Restart([]pawl.Definition{}...) // it knows no flow
		r, err := w.Find(t.Context(), e, "m")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Result(t.Context()); !strings.Contains(fmt.Sprint(err), "no") || len(a.Calls()) != 2 {
			t.Errorf("%v after %d attempts", err, len(a.Calls()))
		}
	})
}

// TestFlowChanged checks that a document that was changed after it was read is run as it is, and not as its file says.
func TestFlowChanged(t *testing.T) {
	doc := parsed(t, "w", "timeout: 1h\nsteps: [{name: a, sleep: 2h}]\n")
	doc.Name, doc.Limits = "other", flow.RunLimits{}
	w := pawlflow.Define[any, any](doc)
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if _, err := run(t, e.Engine, w, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestFlowOperated checks that an operator's result of a flow's step is JSON, as its steps' own are; a function's
// passes the codec.
func TestFlowOperated(t *testing.T) {
	file := pawlflow.Define[any, greeting](parsed(t, "file",
		"steps: [{name: a, task: {type: T}}]\n"+
			"output: {who: \"${{ steps.a.output.who }}\"}\n"))
	function := pawl.Define("function", func(ctx pawl.Context, _ any) (greeting, error) {
		return pawl.HandlerRef[any, greeting]("T").Call(ctx, "a", nil, pawl.Timeout("1h"))
	})
	pawltest.RunWith(t, pawl.Config{Codec: veiled{}}, func(t *testing.T, e *pawltest.Env) {
		for _, w := range []interface {
			Start(context.Context, pawl.Client, string, any, ...pawl.StartOption) (pawl.Run[greeting], error)
		}{file, function} {
			r, err := w.Start(t.Context(), e, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			e.Settle()
			complete := pawl.Operation{Op: client.OpComplete, Step: "a", Output: greeting{"ada"}}
			if err := e.Operate(t.Context(), r.ID, complete); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Result(t.Context()); got.Who != "ada" || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		}
	})
}

func TestFlowRefused(t *testing.T) {
	one := pawlflow.Define[any, any](parsed(t, "one",
		"input: {type: object, required: [who]}\n"+
			"steps: [{name: a, noop: {}}]\n"))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		_, missing := one.Start(t.Context(), e, "", map[string]string{})
		register := func(doc *flow.Document) error { return e.Register(pawlflow.Define[any, any](doc)) }
		taken := parsed(t, "own", "steps: [{name: a, task: {type: go-hook}}]\n")
		nothing := func(context.Context, any) (any, error) { return nil, nil }
		for what, c := range map[string]struct {
			err  error
			want string
		}{
			"no document":   {register(nil), "there is no document"},
			"its name":      {register(&flow.Document{Name: "a/b"}), `"a/b" contains one of`},
			"nothing in it": {register(&flow.Document{Name: "empty"}), "steps"},
			"a task's type": {register(taken), `step "a": tasks of the type "go-hook"`},
			"its input":     {missing, "who"},
			"a handler":     {e.Serve("q", 1, pawl.Handle("exec", nothing)), "another name"},
			"replay":        {replayOf(t, e, one), "has no body"},
		} {
			if c.err == nil || !strings.Contains(c.err.Error(), c.want) || !errors.Is(c.err, pawl.ErrInvalid) {
				t.Errorf("%s: %v; want %q", what, c.err, c.want)
			}
		}
		again := pawlflow.Define[any, any](parsed(t, "one",
			"input: {type: object, required: [who]}\n"+
				"steps: [{name: a, noop: {}}]\n"))
		if err := e.Register(again); err != nil {
			t.Errorf("the same text again: %v", err)
		}
		other := pawlflow.Define[any, any](parsed(t, "one", "steps: [{name: b, noop: {}}]\n"))
		if err := e.Register(other); err == nil || !strings.Contains(err.Error(), "defined twice") {
			t.Errorf("another flow of that name: %v", err)
		}
	})
}

func replayOf(t *testing.T, e *pawltest.Env, w *pawl.Workflow[any, any]) error {
	t.Helper()
	r, err := w.Start(t.Context(), e, "", greeting{"ada"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	history, err := e.History(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	return pawl.Replay(t.Context(), pawl.Config{}, w, history)
}

// TestFlowLeftovers checks that processes that a killed program's steps left behind are marked with its database.
func TestFlowLeftovers(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("there is no /proc here")
	}
	w := pawlflow.Define[any, string](parsed(t, "env",
		"steps: [{name: env, exec: {shell: \"echo $PAWL_OWNER\"}}]\n"+
			"output: ${{ trim(steps.env.output.stdout) }}\n"))
	db := filepath.Join(t.TempDir(), "e.db")
	e, err := pawl.Open(t.Context(), pawl.Config{Database: "sqlite:" + db})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	got, err := run(t, e, w, nil)
	if owner, life, _ := strings.Cut(got, "."); len(owner) != 16 || len(life) != 16 || err != nil {
		t.Errorf("the mark is %q, %v", got, err)
	}
}

// slow is a journal whose disk takes a second.
type slow struct{ journal.Journal }

func (s slow) Append(ctx context.Context, b *journal.Batch) error {
	<-time.After(time.Second)
	return s.Journal.Append(ctx, b)
}

// TestRetryOfAFlowBeforeItsEndIsDurable checks that a flow can be retried before its end is durable: it has no body to
// be called again.
func TestRetryOfAFlowBeforeItsEndIsDurable(t *testing.T) {
	w := pawlflow.Define[any, string](parsed(t, "w",
		"steps: [{name: paid, wait: paid, timeout: 10s}]\n"+
			"output: ${{ steps.paid.output }}\n"))
	synctest.Test(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), pawl.Config{Journal: slow{memory.New()}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		r, err := w.Start(t.Context(), e, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(9500 * time.Millisecond) // it has failed half a second ago
		if err := e.Operate(t.Context(), r.ID, pawl.Operation{Op: client.OpRetryRun}); err != nil {
			t.Fatal(err)
		}
		if err := e.Problem(r.ID); err != nil {
			t.Error(err)
		}
		if err := pawl.Event[string]("paid").Send(t.Context(), e, r.ID, "in cash"); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != "in cash" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// veiled is a codec whose payloads say nothing to others.
type veiled struct{}

func (veiled) Encode(_ context.Context, _ *pawl.Payload, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(append([]byte{'"'}, base64.StdEncoding.EncodeToString(b)...), '"'), err
}

func (veiled) Decode(_ context.Context, _ pawl.Payload, data []byte, v any) error {
	b, err := base64.StdEncoding.DecodeString(string(data[1 : len(data)-1]))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func run[In, Out any](t *testing.T, e *pawl.Engine, w *pawl.Workflow[In, Out], in In) (Out, error) {
	t.Helper()
	r, err := w.Start(t.Context(), e, "", in)
	if err != nil {
		t.Fatal(err)
	}
	return r.Result(t.Context())
}
