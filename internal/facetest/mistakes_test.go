package facetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/policy"
)

// TestNamesThatOthersReadOtherwise checks that a name, an id or a key that another process would read as another one,
// that belongs to schedules, or that is too long is refused, and so are labels that Pawl gives itself.
func TestNamesThatOthersReadOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := pawl.Define("w", func(pawl.Context, int) (int, error) { return 0, nil })
		e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New(), Workflows: []pawl.Definition{w}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		long := strings.Repeat("x", 1001)
		start := func(id string, opts ...pawl.StartOption) func() error {
			return func() error {
				_, err := w.Start(t.Context(), e, id, 1, opts...)
				return err
			}
		}
		must(t, start("open")())
		ev, forged := pawl.Event[int]("ev"), map[string]string{"pawl.schedule": "x"}
		for want, try := range map[string]func() error{
			`the workflow id "\xff" is not valid UTF-8`:      start("\xff"),
			`the workflow id "a\x00b" has the character NUL`: start("a\x00b"),
			"the workflow id has 1001 bytes, more than 1000": start(long),
			`the workflow id "@x" begins with`:               start("@x"),
			`the label "pawl.schedule" begins with "pawl."`:  start("l", pawl.Labels(forged)),
			"the idempotency key has 1001 bytes":             start("k", pawl.IdempotencyKey(long)),
			`the queue's key "\xfe" is not valid UTF-8`:      start("q", pawl.InQueue("q", "\xfe", 0)),
			"the reason has 10001 bytes, more than 10000":    start("r", pawl.By("me", strings.Repeat("y", 10001))),
			`the actor "\xff" is not valid UTF-8`:            start("a", pawl.By("\xff", "")),
			`the id "\xff" is not valid UTF-8`: func() error {
				return ev.Send(t.Context(), e, "open", 1, pawl.SendID("\xff"))
			},
			`the name "\xff" is not valid UTF-8`: func() error {
				return pawl.Event[int]("\xff").Send(t.Context(), e, "open", 1)
			},
			"operation: the reason has 10001 bytes, more than ": func() error {
				return e.Operate(t.Context(), "open",
					pawl.Operation{Op: client.OpPause, Reason: strings.Repeat("z", 10001)})
			},
		} {
			want = strings.TrimPrefix(want, "operation: ")
			if err := try(); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("want %s: %v", want, err)
			}
		}
		if err := start(strings.Repeat("é", 500), pawl.IdempotencyKey(strings.Repeat("k", 1000)))(); err != nil {
			t.Errorf("names of the greatest length: %v", err)
		}
	})
}

// TestMistakesInBodies checks that what a body asks for without an effect fails its run with what is wrong.
func TestMistakesInBodies(t *testing.T) {
	step := func(opts ...pawl.StepOption) func(pawl.Context) error {
		return func(ctx pawl.Context) error {
			_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil }, opts...)
			return err
		}
	}
	wait := func(name string) func(pawl.Context) error {
		return func(ctx pawl.Context) error {
			return second(pawl.Event[int](name).Wait(ctx, pawl.Within("1s")))
		}
	}
	for want, body := range map[string]func(pawl.Context) error{
		//pawlvet:ignore the mistake that is tested
		`no service "bnak" has limits: name it in Config.Services`: step(pawl.Service("bnak")),
		"Retry has no effect on an event wait":                     wait("retried"),
		"Queue and Priority have no effect on an event wait":       wait("preferred"),
		"startToClose has no effect on an event wait":              wait("limited"),
		"get: the future is of no call": func(ctx pawl.Context) error {
			_, err := (&pawl.Future[int]{}).Get(ctx)
			return err
		},
		"it has no workflow": func(ctx pawl.Context) error {
			_, err := pawl.Child(ctx, "c", (*pawl.Workflow[int, int])(nil), 1)
			return err
		},
		"": step(pawl.Service("bank")),
	} {
		synctest.Test(t, func(t *testing.T) {
			w := pawl.Define("w", func(ctx pawl.Context, _ int) (int, error) { return 1, body(ctx) },
				pawl.ForStep("retried", pawl.Retry("fixed(3, 1s)")), pawl.ForStep("preferred", pawl.Priority(3)),
				pawl.ForStep("limited", pawl.AttemptTimeout("1s")))
			e, err := pawl.Open(t.Context(), pawl.Config{
				Journal: memory.New(), Workflows: []pawl.Definition{w}, Log: slog.New(slog.DiscardHandler),
				Services: map[string]policy.QueueLimits{"bank": {Concurrency: 1}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			r, err := w.Start(t.Context(), e, "r", 1)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Result(t.Context())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("want %q: %v", want, err)
			}
		})
	}
}

// loud is an error that panics when it is asked what it says.
type loud struct{}

func (loud) Error() string { panic("no words") }

// TestErrorsThatPanicOrAreLong checks that an error whose text cannot be had, or is very long, fails what returned it
// like any other, in a step and in the handler of an update, and that the history has a bounded text of it.
func TestErrorsThatPanicOrAreLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := pawl.Update[string, int]("up")
		w := pawl.Define("w", func(ctx pawl.Context, _ int) (int, error) {
			for range 2 {
				_ = up.Handle(ctx, nil, func(_ pawl.Context, how string) (int, error) {
					if how == "loud" {
						return 0, loud{}
					}
					return 0, errors.New(strings.Repeat("é", 2<<20))
				})
			}
			_, err := pawl.Step(ctx, "s", func(context.Context) (int, error) { panic(strings.Repeat("x", 3<<20)) })
			return 0, err
		})
		e, err := pawl.Open(t.Context(), pawl.Config{
			Journal: memory.New(), Workflows: []pawl.Definition{w}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		r := started(t, e, w, "r", 1)
		for how, want := range map[string]string{"loud": "no words", "long": fmt.Sprintf("(%d bytes in all)", 4<<20)} {
			_, err := up.Send(t.Context(), e, "r", how)
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 20<<10 {
				t.Errorf("%s: %.200v", how, err)
			}
		}
		if _, err := r.Result(t.Context()); err == nil || len(err.Error()) > 20<<10 ||
			!strings.Contains(err.Error(), "bytes in all)") {
			t.Errorf("a long panic: %.200v", err)
		}
	})
}

// TestNothing checks that what nobody has made is refused where it is given.
func TestNothing(t *testing.T) {
	var none *pawl.Workflow[int, int]
	some := pawl.Define("a", func(pawl.Context, int) (int, error) { return 0, nil })
	for want, cfg := range map[string]pawl.Config{
		"Config.Workflows[0]: pawl: the workflow is nil": {Workflows: []pawl.Definition{nil}},
		"Config.Workflows[1]: pawl: the workflow is nil": {Workflows: []pawl.Definition{some, none}},
		"Config.Propagators[0] is nil":                   {Propagators: []pawl.Propagator{nil}},
	} {
		cfg.Journal = memory.New()
		_, err := pawl.Open(t.Context(), cfg)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	e, err := pawl.Open(t.Context(), pawl.Config{Journal: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, start := none.Start(t.Context(), e, "x", 1)
	_, result := pawl.Run[int]{}.Result(t.Context())
	for what, err := range map[string]error{
		"Register": e.Register(nil), "Start": start, "Result": result, "Serve": e.Serve("", 1, nil),
		"Cancel": pawl.Run[int]{}.Cancel(t.Context(), ""),
	} {
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOptionsForNoStep checks that the log tells, once, of options for a step whose name is probably a misspelling, and
// says nothing of those for a step that was not needed yet.
func TestOptionsForNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		charge := func(ctx pawl.Context, fail bool) (int, error) {
			if fail {
				return 0, errors.New("before any step")
			}
			return pawl.Step(ctx, "charge", func(context.Context) (int, error) { return 1, nil })
		}
		//pawlvet:ignore it is misspelt on purpose
		typo := pawl.ForStep("chrage", pawl.Timeout("1m"))
		w := pawl.Define("w", charge, typo,
			pawl.ForStep("refund", pawl.Retry("fixed(2, 1s)")), pawl.ForStep("charge", pawl.Timeout("2m")))
		e, err := pawl.Open(t.Context(), pawl.Config{
			Journal: memory.New(), Workflows: []pawl.Definition{w}, Log: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for n, fails := range []bool{true, false, false} {
			h := started(t, e, w, fmt.Sprint("run-", n), fails)
			if _, err := h.Result(t.Context()); (err != nil) != fails {
				t.Fatal(err)
			}
			synctest.Wait() // the body's end
			if told := strings.Count(logged.String(), "ForStep sets options"); told != min(n, 1) {
				t.Errorf("after run %d: told %d times:\\n%s", n, told, logged.String())
			}
		}
		if got := logged.String(); !strings.Contains(got, "step=chrage") ||
			!strings.Contains(got, `did you mean \"charge\"?`) {
			t.Errorf("the log says %s", got)
		}
	})
}
