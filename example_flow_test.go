package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
)

func ExampleAsync() {
	w := pawl.Define("both", func(ctx pawl.Context, _ any) (int, error) {
		a := pawl.Async(ctx, "a", func(context.Context) (int, error) { return 1, nil })
		b := pawl.Async(ctx, "b", func(context.Context) (int, error) { return 2, nil })
		both, err := pawl.All(ctx, a, b)
		if err != nil {
			return 0, err
		}
		return both[0] + both[1], nil
	})
	fmt.Println(must(w, nil))
	// Output: 3 <nil>
}

func ExampleSelect() {
	w := pawl.Define("race", func(ctx pawl.Context, _ any) (string, error) {
		answer := pawl.Event[string]("answer").WaitAsync(ctx)
		patience := pawl.SleepAsync(ctx, "patience", "10ms")
		first, err := pawl.Select(ctx, answer, patience) // recorded: the same each time
		switch {
		case err != nil:
			return "", err
		case first == answer:
			return answer.Get(ctx)
		default:
			return "out of patience", nil
		}
	})
	fmt.Println(must(w, nil))
	// Output: out of patience <nil>
}

func ExampleAll() {
	w := pawl.Define("quotes", func(ctx pawl.Context, shops []string) ([]string, error) {
		var quotes []*pawl.Future[string]
		for _, shop := range shops {
			quotes = append(quotes, pawl.Async(ctx, "ask", func(context.Context) (string, error) {
				return "99 at " + shop, nil
			}))
		}
		return pawl.All(ctx, quotes...)
	})
	fmt.Println(must(w, []string{"a", "b"}))
	// Output: [99 at a 99 at b] <nil>
}

func ExampleGo() {
	w := pawl.Define("branches", func(ctx pawl.Context, _ any) (string, error) {
		mail := pawl.Go(ctx, "mail", func(ctx pawl.Context) (string, error) {
			if err := pawl.Sleep(ctx, "pause", "1ms"); err != nil {
				return "", err
			}
			return pawl.Step(ctx, "send", func(context.Context) (string, error) { return "mailed", nil })
		})
		stored, err := pawl.Step(ctx, "store", func(context.Context) (string, error) { return "stored", nil })
		if err != nil {
			return "", err
		}
		mailed, err := mail.Get(ctx)
		return stored + " and " + mailed, err
	})
	fmt.Println(must(w, nil))
	// Output: stored and mailed <nil>
}

func ExampleMap() {
	w := pawl.Define("resize", func(ctx pawl.Context, images []string) ([]string, error) {
		return pawl.Map(ctx, "images", 2, images, func(ctx pawl.Context, image string) (string, error) {
			return pawl.Step(ctx, "resize", func(context.Context) (string, error) { return "small " + image, nil })
		})
	})
	fmt.Println(must(w, []string{"a.png", "b.png", "c.png"}))
	// Output: [small a.png small b.png small c.png] <nil>
}

func ExampleSleep() {
	w := pawl.Define("remind", func(ctx pawl.Context, _ any) (bool, error) {
		start := pawl.Now(ctx)
		err := pawl.Sleep(ctx, "pause", "10ms") // "30d" costs no more
		return pawl.Now(ctx).Sub(start) >= 10*time.Millisecond, err
	})
	fmt.Println(must(w, nil))
	// Output: true <nil>
}

func ExampleEvent() {
	const approved pawl.Event[string] = "approved"
	w := pawl.Define("approve", func(ctx pawl.Context, _ any) (string, error) {
		who, err := approved.Wait(ctx, pawl.Within("7d"))
		if errors.Is(err, pawl.ErrDeadlineExceeded) {
			return "nobody did", nil
		}
		return "approved by " + who, err
	})
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	run, _ := w.Start(ctx, eng, "contract-7", nil)
	if err := approved.Send(ctx, eng, "contract-7", "ann"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(run.Result(ctx))
	// Output: approved by ann <nil>
}

func ExampleChild() {
	audit := pawl.Define("audit", func(_ pawl.Context, order string) (string, error) { return order + " audited", nil })
	w := pawl.Define("order", func(ctx pawl.Context, order string) (string, error) {
		return pawl.Child(ctx, "audit", audit, order, pawl.Timeout("1h"))
	})
	fmt.Println(must(w, "order-1"))
	// Output: order-1 audited <nil>
}

func ExampleOnFailure() {
	refund := func(_ context.Context, order string, cause error) error {
		fmt.Println("refund", order, "because", cause)
		return nil
	}
	w := pawl.Define("order", func(ctx pawl.Context, _ string) (any, error) {
		return nil, pawl.Do(ctx, "ship", func(context.Context) error { return errors.New("no ship") })
	}, pawl.OnFailure(refund, pawl.Retry("fixed(3, 1s)")))
	_, err := must(w, "order-1")
	fmt.Println(err != nil)
	// Output:
	// refund order-1 because the run failed: step "ship" failed: no ship
	// true
}

func ExampleRunTimeout() {
	w := pawl.Define("hasty", func(ctx pawl.Context, _ any) (any, error) {
		return nil, pawl.Sleep(ctx, "long", "365d")
	}, pawl.RunTimeout("10ms"))
	_, err := must(w, nil)
	fmt.Println(errors.Is(err, pawl.ErrTimedOut))
	// Output: true
}

func ExampleRunRetry() {
	w := pawl.Define("again", func(ctx pawl.Context, _ any) (int, error) {
		if n := pawl.Info(ctx).Attempt; n < 3 {
			return 0, errors.New("the whole run starts over")
		}
		return pawl.Info(ctx).Attempt, nil
	}, pawl.RunRetry("fixed(3, 1ms)"))
	fmt.Println(must(w, nil))
	// Output: 3 <nil>
}

func ExampleForStep() {
	w := pawl.Define("order", func(ctx pawl.Context, _ any) (any, error) { return nil, nil },
		pawl.Defaults(pawl.Retry("fixed(3, 1s)")),
		//pawlvet:ignore the mistake that is tested
		pawl.ForStep("charge", pawl.Retry("exponential(0.5, 1s)")))
	fmt.Println(w.Err()) // the error comes before anything runs
	// Output: pawl: workflow "order": step charge: retry: "exponential(0.5, 1s)": maxAttempts: 0.5 where a whole number is expected
}

func ExampleVersion() {
	w := pawl.Define("wrap", func(ctx pawl.Context, _ any) (string, error) {
		v, err := pawl.Version(ctx, "gift wrap", 1, 2)
		if err != nil {
			return "", err
		}
		if v >= 2 { // runs that were beyond this point before the change keep to version 1
			return pawl.Step(ctx, "wrap", func(context.Context) (string, error) { return "wrapped", nil })
		}
		return "plain", nil
	})
	fmt.Println(must(w, nil))
	// Output: wrapped <nil>
}

func ExampleLogger() {
	w := pawl.Define("fulfil", func(ctx pawl.Context, _ any) (string, error) {
		log := pawl.Logger(ctx)
		log.Info("packing")
		_ = pawl.Do(ctx, "pack", func(context.Context) error { return nil })
		log.Info("waiting for the courier")
		_ = pawl.Sleep(ctx, "courier", time.Second) // the body is called again afterwards
		log.Info("gone")
		return "shipped", nil
	})
	plain := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "run" {
			return slog.Attr{}
		}
		return a
	}}
	ctx := context.Background()
	eng, err := pawl.Open(ctx, pawl.Config{Database: "memory:", Log: slog.New(slog.NewTextHandler(os.Stdout, plain))})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close()
	run, err := w.Start(ctx, eng, "order-42", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// level=INFO msg=packing workflow=fulfil
	// level=INFO msg="waiting for the courier" workflow=fulfil
	// level=INFO msg=gone workflow=fulfil
	// shipped <nil>
}

func ExampleContinueAsNew() {
	w := pawl.Define("countdown", func(ctx pawl.Context, n int) (string, error) {
		if n > 0 {
			return "", pawl.ContinueAsNew(ctx, n-1) // the next run has a fresh history
		}
		return "lift off", nil
	})
	fmt.Println(must(w, 3))
	// Output: lift off <nil>
}

func ExampleUUID() {
	w := pawl.Define("draw", func(ctx pawl.Context, _ any) (bool, error) {
		a, b := pawl.UUID(ctx), pawl.UUID(ctx)
		dice := pawl.Random(ctx).IntN(6) + 1
		return a != b && dice >= 1 && dice <= 6, nil
	})
	fmt.Println(must(w, nil))
	// Output: true <nil>
}

func ExampleState() {
	var progress pawl.State[string]
	w := pawl.Define("import", func(ctx pawl.Context, pages int) (int, error) {
		for page := 1; page <= pages; page++ {
			if err := progress.Set(ctx, fmt.Sprintf("page %d of %d", page, pages)); err != nil {
				return 0, err
			}
			err := pawl.Do(ctx, "page", func(context.Context) error { return nil })
			if err != nil {
				return 0, err
			}
		}
		return pages, nil
	})
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	run, _ := w.Start(ctx, eng, "import-1", 3)
	_, _ = run.Result(ctx)
	fmt.Println(progress.Get(ctx, eng, "import-1"))
	// Output: page 3 of 3 <nil>
}

func ExampleUpdate() {
	const decide pawl.Update[string, string] = "decide"
	w := pawl.Define("approval", func(ctx pawl.Context, approver string) (bool, error) {
		approved := false
		err := decide.Handle(ctx, func(by string) error {
			if by != approver {
				return fmt.Errorf("only %s may decide", approver)
			}
			return nil
		}, func(ctx pawl.Context, by string) (string, error) {
			approved = true
			return pawl.Step(ctx, "file", func(context.Context) (string, error) { return "filed for " + by, nil })
		}, pawl.Within("14d"))
		return approved, err
	})
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	run, _ := w.Start(ctx, eng, "contract-7", "ann")
	_, err := decide.Send(ctx, eng, "contract-7", "bob")
	var refused *pawl.UpdateError
	fmt.Println(errors.As(err, &refused) && refused.Refused)
	fmt.Println(decide.Send(ctx, eng, "contract-7", "ann", pawl.SendID("request 1")))
	fmt.Println(run.Result(ctx))
	// Output:
	// true
	// filed for ann <nil>
	// true <nil>
}

func ExampleRef() {
	// This program starts orders, and another one has the function.
	order := pawl.Ref[int, string]("order")
	eng := engineFor()
	defer func() { _ = eng.Close() }()
	ctx := context.Background()
	run, _ := order.Start(ctx, eng, "order-1", 3)
	d, _ := eng.DescribeRun(ctx, "order-1")
	fmt.Println(d.Phase)

	// When the program that has it opens the database, the run goes on.
	_ = eng.Register(pawl.Define("order", func(_ pawl.Context, n int) (string, error) {
		return fmt.Sprintf("%d pieces", n), nil
	}))
	fmt.Println(run.Result(ctx))
	// Output:
	// running
	// 3 pieces <nil>
}

func ExampleFuture_Cancel() {
	w := pawl.Define("ride", func(ctx pawl.Context, _ any) (string, error) {
		fast := pawl.Go(ctx, "taxi", func(ctx pawl.Context) (string, error) {
			return "taxi", pawl.Sleep(ctx, "drive", "1ms")
		})
		cheap := pawl.Go(ctx, "bus", func(ctx pawl.Context) (string, error) {
			return "bus", pawl.Sleep(ctx, "drive", "30d")
		})
		first, err := pawl.Select(ctx, fast, cheap)
		if err != nil {
			return "", err
		}
		if first == fast {
			cheap.Cancel() // its branch gets ErrCancelled, and may undo what it did
		}
		_, err = cheap.Get(ctx)
		//pawlvet:ignore the example shows when the body is called
		fmt.Println(errors.Is(err, pawl.ErrCancelled))
		return fast.Get(ctx)
	})
	fmt.Println(must(w, nil))
	// Output:
	// true
	// taxi <nil>
}
