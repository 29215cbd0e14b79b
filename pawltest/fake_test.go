package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/pawlflow"
	"github.com/pawl-dev/pawl/pawltest"
)

type order struct {
	ID    string
	Cents int
}

type parcel struct{ Code string }

var (
	chargeCard = pawl.HandlerRef[order, string]("charge-card")
	notify     = pawl.Handle("notify", func(context.Context, string) (int, error) {
		return 0, errors.New("tests send no mail")
	})
	ship = pawl.Define("ship", func(pawl.Context, order) (parcel, error) {
		return parcel{}, errors.New("tests ship nothing")
	}, pawl.OnFailure(func(context.Context, order, error) error { panic("the hook of a faked workflow ran") }),
		pawl.OnExit(func(context.Context, order, error) error { panic("the hook of a faked workflow ran") }))
	archive = pawl.Ref[string, int]("archive")
)

// errDeclined is an error that is the same on both sides of a child run.
var errDeclined = errors.New("declined")

func init() { pawl.RegisterErrorValue("declined", errDeclined) }

// shop charges, ships, archives and notifies.
var shop = pawl.Define("shop", func(ctx pawl.Context, in order) (string, error) {
	txn, err := chargeCard.Call(ctx, "charge", in, pawl.Queue("payments"), pawl.Retry("fixed(3, 1m)"))
	if err != nil {
		return "", err
	}
	sent, err := pawl.Child(ctx, "ship", ship, in, pawl.Retry("fixed(3, 1h)"))
	if err != nil {
		return "", err
	}
	n, err := pawl.Child(ctx, "archive", archive, txn)
	if err != nil {
		return "", err
	}
	mails, err := notify.Call(ctx, "mail", in.ID, pawl.Queue("mail"))
	return fmt.Sprint(txn, " ", sent.Code, " ", n, " ", mails), err
})

// TestFakes fakes handlers, one of which is served, and workflows, one of which is not here. Answers come one after the
// other, take virtual time, and are given once, also across a restart and a crash.
func TestFakes(t *testing.T) {
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		if err := e.Serve("mail", 1, notify); err != nil {
			t.Fatal(err)
		}
		charged := pawltest.FakeCall(e, chargeCard).Fail(errors.New("busy")).Times(2).Return("txn-1")
		shipped := pawltest.FakeChild(e, ship).Fail(errDeclined).After(3 * time.Hour).Return(parcel{"P1"})
		archived := pawltest.FakeChild(e, archive).Do(func(ctx context.Context, txn string) (int, error) {
			if a := pawl.Attempt(ctx); a.Workflow != "archive" {
				t.Errorf("the fake's attempt is %+v", a)
			}
			return len(txn), nil
		})
		pawltest.FakeCall(e, notify).Return(7)
		start := time.Now()
		run, err := shop.Start(t.Context(), e, "o1", order{"o1", 500})
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(30 * time.Minute)
		e.Restart()
		e.Skip(time.Hour) // the second parcel takes longer than that
		e.Crash()
		if err := e.Serve("mail", 1, notify); err != nil {
			t.Fatal(err)
		}
		got, err := pawl.RunOf[string](e, run.ID).Result(t.Context())
		if err != nil || got != "txn-1 P1 5 7" {
			t.Errorf("%q, %v", got, err)
		}
		// 2 retries of a minute, 1 of an hour, 28 minutes of delay, a crash, the delay again
		if took := time.Since(start); took != 4*time.Hour+30*time.Minute {
			t.Errorf("it took %s", took)
		}
		calls := charged.Calls()
		if len(calls) != 3 || calls[2].In != (order{"o1", 500}) || calls[2].Number != 3 || calls[2].Step != "charge" ||
			!calls[2].At.Equal(start.Add(2*time.Minute)) {
			t.Errorf("charged by %+v", calls)
		}
		if n := len(shipped.Calls()); n != 3 || archived.Calls()[0].In != "txn-1" {
			t.Errorf("shipped %d times; archived by %+v", n, archived.Calls())
		}
		e.WantStarts("o1", "charge", 0, time.Minute, 2*time.Minute)
		e.WantStarts("o1", "ship", 0, time.Hour)
		child := e.Attempts("o1", "archive")[0].Child
		if d, err := e.DescribeRun(t.Context(), child); err != nil || d.Workflow != "archive" ||
			d.Phase != client.PhaseSucceeded {
			t.Errorf("the child is %+v, %v", d, err)
		}
	}, shop, ship)
}

// TestFakedChildFails checks that the error of a faked workflow reaches the parent as that of its function would.
func TestFakedChildFails(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, in order) (string, error) {
		_, err := pawl.Child(ctx, "ship", ship, in)
		if !errors.Is(err, errDeclined) || strings.Contains(err.Error(), `"fake"`) {
			return "", fmt.Errorf("the child failed by %w", err)
		}
		return "refunded", nil
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeChild(e, ship).Fail(fmt.Errorf("the bank: %w", errDeclined))
		run, err := w.Start(t.Context(), e, "", order{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(t.Context()); err != nil || got != "refunded" {
			t.Errorf("%q, %v", got, err)
		}
		// A run that the test starts itself has its own function.
		own := pawl.Define("own", func(ctx pawl.Context, n int) (int, error) { return n + 1, nil })
		pawltest.FakeChild(e, own).Optional()
		direct, err := own.Start(t.Context(), e, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := direct.Result(t.Context()); got != 2 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	}, w)
}

// TestFakedLater checks that calls and children that wait for a function go on when it is faked. A child that has begun
// with its own function keeps it.
func TestFakedLater(t *testing.T) {
	slow := pawl.Define("slow", func(ctx pawl.Context, _ int) (int, error) { return 1, pawl.Sleep(ctx, "rest", "1h") })
	w := pawl.Define("w", func(ctx pawl.Context, in order) (string, error) {
		a, b := pawl.ChildAsync(ctx, "archive", archive, "x"), pawl.ChildAsync(ctx, "slow", slow, 1)
		txn, err := chargeCard.Call(ctx, "charge", in, pawl.Queue("q"))
		if err != nil {
			return "", err
		}
		n, err := pawl.All(ctx, a, b)
		return fmt.Sprint(txn, n), err
	})
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		run, err := w.Start(t.Context(), e, "", order{})
		if err != nil {
			t.Fatal(err)
		}
		e.Skip(time.Minute)
		e.WantPhase(run.ID, client.PhaseRunning)
		pawltest.FakeCall(e, chargeCard).Return("t")
		pawltest.FakeChild(e, archive).Return(4)
		pawltest.FakeChild(e, slow).Return(5).Optional()
		e.Restart()
		if got, err := pawl.RunOf[string](e, run.ID).Result(t.Context()); err != nil || got != "t[4 1]" {
			t.Errorf("%q, %v", got, err)
		}
	}, w, slow)
}

// TestFakesOfFlows fakes a flow that is a child, what a flow begins, and the handler that its task names.
func TestFakesOfFlows(t *testing.T) {
	define := func(name, rest string) *flow.Document {
		doc, err := flow.Parse(name+".yaml", []byte("pawl: 1\nname: "+name+"\n"+rest))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	page := pawlflow.Define[order, string](define("page", "steps: [{name: p, exec: ./print}]\n"))
	part := pawl.Define("part", func(pawl.Context, map[string]int) (int, error) { panic("it ran") })
	book := pawlflow.Define[any, any](define("book", "steps:\n  - {name: a, flow: {name: part, input: {n: 2}}}\n"+
		"  - {name: b, task: {type: bind, queue: hall, input: {n: 3}}}\n"+
		"output: ${{ [steps.a.output, steps.b.output] }}\n"))
	for _, codec := range []pawl.Codec{nil, sealing{}} {
		w := pawl.Define("w", func(ctx pawl.Context, in order) (string, error) {
			text, err := pawl.Child(ctx, "page", page, in)
			if err != nil || codec != nil {
				return text, err // flows cannot read what the codec wrote, nor a handler what a flow did
			}
			bound, err := pawl.Child(ctx, "book", book, nil)
			return fmt.Sprint(text, bound), err
		})
		cfg := pawl.Config{Codec: codec, Workflows: []pawl.Definition{w, page, book, part}}
		pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
			faked := pawltest.FakeChild(e, page).Return("page ")
			parts := pawltest.FakeChild(e, part).Return(4).Optional()
			bind := pawltest.FakeCall(e, pawl.HandlerRef[map[string]int, string]("bind")).Return("bound").Optional()
			run, err := w.Start(t.Context(), e, "", order{"o1", 5})
			if err != nil {
				t.Fatal(err)
			}
			got, err := run.Result(t.Context())
			if err != nil || faked.Calls()[0].In != (order{"o1", 5}) {
				t.Errorf("%q, %v, %+v", got, err, faked.Calls())
			}
			if codec == nil && (got != "page [4 bound]" || parts.Calls()[0].In["n"] != 2 ||
				bind.Calls()[0].In["n"] != 3) {
				t.Errorf("%q, %+v, %+v", got, parts.Calls(), bind.Calls())
			}
		})
	}
}

// TestFakePatterns checks that the pattern that says the most counts, and of two that say as much the newer one.
func TestFakePatterns(t *testing.T) {
	w := pawl.Define("w", func(ctx pawl.Context, n int) (string, error) {
		got, err := pawl.Map(ctx, "items", 1, make([]int, n), func(ctx pawl.Context, _ int) (string, error) {
			var all string
			for range 2 {
				s, err := pawl.Step(ctx, "work", func(context.Context) (string, error) { return "real", nil })
				if err != nil {
					return "", err
				}
				all += s
			}
			return all, nil
		})
		if err == nil {
			err = pawl.Do(ctx, "done", func(context.Context) error { return errors.New("real") })
		}
		return strings.Join(got, " "), err
	}, pawl.OnExit(func(context.Context, int, error) error { return errors.New("real") }))
	pawltest.Run(t, func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[string](e, "items[1]/work#2").Return("E")
		pawltest.FakeStep[string](e, "items[*]/work").Return("a").Times(1).Return("b")
		pawltest.FakeStep[string](e, "*/work#2").Return("2")
		var ran []string
		pawltest.FakeStep[any](e, "*").Do(func(_ context.Context, a client.AttemptInfo) (any, error) {
			ran = append(ran, a.Step)
			return nil, nil
		})
		pawltest.FakeStep[string](e, "items[0*").Return("0")
		run, err := w.Start(t.Context(), e, "", 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := run.Result(t.Context())
		if err != nil || got != "a0 bE b2" || !slices.Equal(ran, []string{"done", "onExit"}) {
			t.Errorf("%q, %v; ran %q", got, err, ran)
		}
	}, w)
}

// scenario is a test that fails, and what it has to say.
type scenario struct {
	test func(t *testing.T, e *pawltest.Env)
	want []string
}

// scenarios are tests that fail because of a fake, or of what else they left.
var scenarios = map[string]scenario{
	"unused step": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[string](e, "archiv")
		pawltest.FakeStep[int](e, "other").Optional()
		pawltest.FakeStep[any](e, "*").Return(nil)
		pawltest.FakeStep[any](e, "late*")
		finish(t, e, archiving)
	}, []string{
		`the fake of step "archiv" was never called; did you mean "archive"?; called were ["archive" "sign"]`,
		`the fake of step "late*" was never called; called were`,
	}},
	"a step that is a call": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[string](e, "charge")
		pawltest.FakeStep[parcel](e, "ship")
		fakeShop(e)
		finish(t, e, shop)
	}, []string{
		`the fake of step "charge" was never called: the step calls handler "charge-card", which FakeCall fakes`,
		`the fake of step "ship" was never called: the step begins a child run of workflow "ship", which FakeChild`,
	}},
	"unused handler and workflow": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, pawl.HandlerRef[int, int]("charge-cart"))
		pawltest.FakeChild(e, pawl.Ref[int, int]("shop"))
		fakeShop(e)
		finish(t, e, shop)
	}, []string{
		`the fake of handler "charge-cart" was never called; did you mean "charge-card"?`,
		`the fake of workflow "shop" was never called; did you mean "ship"?; called were ["archive" "ship"]`,
	}},
	"nothing was called": {
		func(_ *testing.T, e *pawltest.Env) { pawltest.FakeCall(e, chargeCard) },
		[]string{`the fake of handler "charge-card" was never called: no handler was`},
	},
	"answers left": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[string](e, "archive").Return("a").Times(3).Return("b")
		pawltest.FakeStep[any](e, "sign")
		finish(t, e, archiving)
	}, []string{`the fake of step "archive" was called 1 times, and 3 more of its answers were not asked for`}},
	"too many calls": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[string](e, "archive").Fail(errors.New("x")).Times(1)
		pawltest.FakeStep[any](e, "sign").Optional()
		finish(t, e, archiving)
	}, []string{`the fake of step "archive" was called once more than its answers say, by step "archive" of workflow`}},
	"mistyped step": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[parcel](e, "archive")
		pawltest.FakeStep[any](e, "sign").Optional()
		finish(t, e, archiving)
	}, []string{`the fake of step "archive" returns pawltest_test.parcel, but step "archive" returns string`}},
	"mistyped answer": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[any](e, "*").Return(17)
		finish(t, e, archiving)
	}, []string{`the fake of step "*" returned int, but step "archive" returns string`}},
	"mistyped handler": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, pawl.HandlerRef[parcel, string]("charge-card"))
		finish(t, e, shop)
	}, []string{`the fake of handler "charge-card" takes pawltest_test.parcel and returns string, but step "charge" ` +
		`gives pawltest_test.order and wants string`}},
	"mistyped workflow": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, chargeCard)
		pawltest.FakeChild(e, pawl.Ref[order, int]("ship"))
		finish(t, e, shop)
	}, []string{`the fake of workflow "ship" takes pawltest_test.order and returns int, but step "ship" gives ` +
		`pawltest_test.order and wants pawltest_test.parcel`}},
	"mistyped answer of a handler": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeCall(e, pawl.HandlerRef[any, any]("charge-card")).Return(1)
		finish(t, e, shop)
	}, []string{`the fake of handler "charge-card" returned int, but its caller returns string`}},
	"mistyped step that is a call": {func(t *testing.T, e *pawltest.Env) {
		served := pawl.Handle("charge-card", func(context.Context, order) (string, error) { return "real", nil })
		if err := e.Serve("payments", 1, served); err != nil {
			t.Fatal(err)
		}
		pawltest.FakeStep[int](e, "charge")
		finish(t, e, shop)
	}, []string{`the fake of step "charge" returns int, but step "charge" returns string`}},
	"a delay that is cut off": {func(t *testing.T, e *pawltest.Env) {
		pawltest.FakeStep[string](e, "wait").After(time.Hour).Return("late").Times(1).Return("soon").Times(3)
		w := pawl.Define("w", func(ctx pawl.Context, _ order) (string, error) {
			return pawl.Step(ctx, "wait", func(context.Context) (string, error) { return "", nil },
				pawl.AttemptTimeout("1m"), pawl.Retry("fixed(2, 1m)"))
		})
		finish(t, e, w)
		runs, err := e.ListRuns(t.Context(), client.Query{})
		if err != nil || len(runs) != 1 || runs[0].Phase != client.PhaseSucceeded {
			t.Fatal(runs, err)
		}
		e.WantStarts(runs[0].ID, "wait", 0, 2*time.Minute)
		e.WantStarts(runs[0].ID, "wait", 0, time.Minute)
	}, []string{`the fake of step "wait" was called 2 times, and 2 more of its answers`}},
	"Times without an answer": {
		func(_ *testing.T, e *pawltest.Env) { pawltest.FakeStep[int](e, "s").Times(2) },
		[]string{`Times(2) of the fake of step "s": it follows an answer`},
	},
}

var archiving = pawl.Define("archiving", func(ctx pawl.Context, _ order) (string, error) {
	text, err := pawl.Step(ctx, "archive", func(context.Context) (string, error) { return "a", nil },
		pawl.Retry("fixed(3, 1s)"))
	if err != nil {
		return "", err
	}
	return text, pawl.Do(ctx, "sign", func(context.Context) error { return nil })
})

func fakeShop(e *pawltest.Env) {
	pawltest.FakeCall(e, chargeCard).Return("t")
	pawltest.FakeChild(e, ship)
	pawltest.FakeChild(e, archive)
	pawltest.FakeCall(e, notify)
}

func finish(t *testing.T, e *pawltest.Env, w *pawl.Workflow[order, string]) {
	t.Helper()
	run, err := w.Start(t.Context(), e, "", order{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Result(t.Context())
	t.Logf("the run ended with %v", err)
}

// TestFakesThatFail runs each scenario as a test of its own, in a process of its own, and reads what it says.
func TestFakesThatFail(t *testing.T) {
	const asScenario = "PAWL_TEST_SCENARIO"
	if name := os.Getenv(asScenario); name != "" {
		pawltest.Run(t, scenarios[name].test)
		return
	}
	for name, c := range scenarios {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFakesThatFail$", "-test.v")
		cmd.Env = append(os.Environ(), asScenario+"="+name, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: the test passed", name)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), "pawltest: "+want) {
				t.Errorf("%s: want %q in\n%s", name, want, out)
			}
		}
		starts := regexp.MustCompile(`(?s)the attempts of step "wait" of run \S+ started at \[0s 2m0s\], want ` +
			`\[0s 1m0s\]\s+attempt 1 at 0s: .*startToClose.*attempt 2 at 2m0s: succeeded`)
		if n := len(starts.FindAll(out, -1)); strings.HasPrefix(name, "a delay") != (n == 1) {
			t.Errorf("%s: %d times the test says when attempts ran:\n%s", name, n, out)
		}
	}
}
