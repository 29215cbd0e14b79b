package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/memory" // the journal for "memory:"; a service imports journal/sqlite
)

// engineFor opens an engine in memory that knows the workflows.
func engineFor(workflows ...pawl.Definition) *pawl.Engine {
	eng, err := pawl.Open(context.Background(), pawl.Config{Database: "memory:", Workflows: workflows})
	if err != nil {
		panic(err)
	}
	return eng
}

// must runs a workflow to its end.
func must[In, Out any](w *pawl.Workflow[In, Out], in In) (Out, error) {
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	run, err := w.Start(context.Background(), eng, "", in)
	if err != nil {
		panic(err)
	}
	return run.Result(context.Background())
}

func Example() {
	type Order struct {
		ID    string
		Cents int
	}
	fulfil := pawl.Define("fulfil-order", func(ctx pawl.Context, in Order) (string, error) {
		txn, err := pawl.Step(ctx, "charge", func(context.Context) (string, error) {
			return "txn-" + in.ID, nil
		}, pawl.Retry("exponential(5, 1s, max=30s)"), pawl.Timeout("5m"), pawl.AttemptTimeout("30s"))
		if errors.Is(err, pawl.ErrTimedOut) {
			return "", fmt.Errorf("the bank does not answer: %w", err)
		}
		if err != nil {
			return "", err
		}
		if err := pawl.Sleep(ctx, "settle", 10*time.Millisecond); err != nil {
			return "", err
		}
		return "receipt for " + txn, nil
	}, pawl.RunTimeout("30m"))

	ctx := context.Background()
	eng, err := pawl.Open(ctx, pawl.Config{Database: "memory:"}) // or "sqlite:shop.db"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = eng.Close() }()
	run, err := fulfil.Start(ctx, eng, "order-42", Order{ID: "42", Cents: 1999})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: receipt for txn-42 <nil>
}

func ExampleStep() {
	w := pawl.Define("greet", func(ctx pawl.Context, name string) (string, error) {
		return pawl.Step(ctx, "greet", func(context.Context) (string, error) { return "hello " + name, nil })
	})
	fmt.Println(must(w, "world"))
	// Output: hello world <nil>
}

func ExampleDo() {
	w := pawl.Define("notify", func(ctx pawl.Context, to string) (bool, error) {
		err := pawl.Do(ctx, "mail", func(context.Context) error {
			fmt.Println("mail to", to)
			return nil
		})
		return err == nil, err
	})
	fmt.Println(must(w, "ann"))
	// Output:
	// mail to ann
	// true <nil>
}

func ExampleRetry() {
	w := pawl.Define("flaky", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Step(ctx, "fetch", func(ctx context.Context) (string, error) {
			if n := pawl.Attempt(ctx).Number; n < 3 {
				return "", fmt.Errorf("attempt %d failed", n)
			}
			return "fetched", nil
		}, pawl.Retry("fixed(3, 5ms)"))
	})
	fmt.Println(must(w, nil))
	// Output: fetched <nil>
}

func ExampleRetryPolicy() {
	w := pawl.Define("flaky", func(ctx pawl.Context, _ any) (int, error) {
		_, err := pawl.Step(ctx, "fetch", func(context.Context) (int, error) { return 0, errors.New("no answer") },
			pawl.Retry(pawl.RetryPolicy{
				MaxAttempts: 4, InitialInterval: time.Millisecond,
				BackoffCoefficient: 1.5,
			}))
		var step *pawl.StepError
		errors.As(err, &step)
		return step.Attempts, nil
	})
	fmt.Println(must(w, nil))
	// Output: 4 <nil>
}

func ExampleTimeout() {
	w := pawl.Define("slow", func(ctx pawl.Context, _ any) (string, error) {
		_, err := pawl.Step(ctx, "call", func(ctx context.Context) (int, error) {
			<-ctx.Done() // the step is told to stop
			return 0, ctx.Err()
		}, pawl.Timeout("20ms"), pawl.Retry("fixed(10, 1ms)"))
		if errors.Is(err, pawl.ErrTimedOut) {
			return "went on without it", nil
		}
		return "", err
	})
	fmt.Println(must(w, nil))
	// Output: went on without it <nil>
}

func ExampleNonRetryable() {
	w := pawl.Define("pay", func(ctx pawl.Context, _ any) (int, error) {
		err := pawl.Do(ctx, "charge", func(context.Context) error {
			return pawl.NonRetryable(errors.New("card declined"))
		}, pawl.Retry("fixed(5, 1s)"))
		//pawlvet:ignore the example shows when the body is called
		fmt.Println(err)
		var step *pawl.StepError
		errors.As(err, &step)
		return step.Attempts, nil
	})
	fmt.Println(must(w, nil))
	// Output:
	// step "charge" failed: card declined
	// 1 <nil>
}

func ExampleRetryAfter() {
	w := pawl.Define("polite", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Step(ctx, "call", func(ctx context.Context) (string, error) {
			if pawl.Attempt(ctx).Number == 1 {
				return "", pawl.RetryAfter(errors.New("too many requests"), 5*time.Millisecond) // instead of an hour
			}
			return "served", nil
		}, pawl.Retry("fixed(2, 1h)"))
	})
	fmt.Println(must(w, nil))
	// Output: served <nil>
}

// OutOfStock keeps its type and data in the history.
type OutOfStock struct{ Item string }

func (e *OutOfStock) Error() string { return e.Item + " is out of stock" }

func init() { pawl.RegisterError[*OutOfStock]("out_of_stock") }

func ExampleRegisterError() {
	w := pawl.Define("reserve", func(ctx pawl.Context, item string) (string, error) {
		err := pawl.Do(ctx, "reserve", func(context.Context) error { return &OutOfStock{item} })
		var out *OutOfStock
		if errors.As(err, &out) { // also after a restart
			return "no " + out.Item + " left", nil
		}
		return "reserved", err
	})
	fmt.Println(must(w, "tea"))
	// Output: no tea left <nil>
}

var errClosed = errors.New("the shop is closed")

func init() { pawl.RegisterErrorValue("shop_closed", errClosed) }

func ExampleRegisterErrorValue() {
	w := pawl.Define("visit", func(ctx pawl.Context, _ any) (bool, error) {
		err := pawl.Do(ctx, "enter", func(context.Context) error { return fmt.Errorf("entering: %w", errClosed) })
		return errors.Is(err, errClosed), nil
	})
	fmt.Println(must(w, nil))
	// Output: true <nil>
}

func ExampleHeartbeat() {
	w := pawl.Define("copy", func(ctx pawl.Context, pages int) (string, error) {
		return pawl.Step(ctx, "copy", func(ctx context.Context) (string, error) {
			var done pawl.Heartbeat[int]
			first, _ := done.Last(ctx) // where the attempt before came to
			for page := first; page < pages; page++ {
				done.Beat(ctx, page+1)
				if page == 2 && pawl.Attempt(ctx).Number == 1 {
					return "", errors.New("the line broke")
				}
			}
			return fmt.Sprintf("attempt %d began at page %d", pawl.Attempt(ctx).Number, first), nil
		}, pawl.Retry("fixed(2, 1ms)"), pawl.HeartbeatTimeout("1m"))
	})
	fmt.Println(must(w, 5))
	// Output: attempt 2 began at page 3 <nil>
}

func ExampleHandler() {
	send := pawl.Handle("SendReceipt", func(_ context.Context, to string) (string, error) {
		return "sent to " + to, nil
	})
	w := pawl.Define("mailing", func(ctx pawl.Context, to string) (string, error) {
		return send.Call(ctx, "send", to, pawl.Queue("mail"), pawl.QueueTimeout("1m"))
	})
	eng := engineFor(w)
	defer func() { _ = eng.Close() }()
	if err := eng.Serve("mail", 4, send); err != nil {
		fmt.Println(err)
	}
	run, _ := w.Start(context.Background(), eng, "", "ann")
	fmt.Println(run.Result(context.Background()))
	// Output: sent to ann <nil>
}

// patient is checked when the program starts.
var patient = pawl.MustPolicy(pawl.Retry("exponential(5, 10ms)"), pawl.Timeout("5m"))

func ExampleMustPolicy() {
	w := pawl.Define("ship", func(ctx pawl.Context, order string) (string, error) {
		label, err := pawl.Step(ctx, "label", func(ctx context.Context) (string, error) {
			if pawl.Attempt(ctx).Number < 3 {
				return "", errors.New("the printer is out of paper")
			}
			return "label of " + order, nil
		}, patient)
		if err != nil {
			return "", err
		}
		return pawl.Step(ctx, "pick up", func(context.Context) (string, error) { return label + " is on its way", nil },
			patient)
	})
	fmt.Println(must(w, "order 7"))
	// Output: label of order 7 is on its way <nil>
}

func ExampleErrInvalid() {
	w := pawl.Define("ship", func(ctx pawl.Context, _ int) (bool, error) {
		//pawlvet:ignore the mistake that is tested
		err := pawl.Sleep(ctx, "rest", "3 weeks")
		return err == nil, err
	})
	_, err := must(w, 1)
	fmt.Println(errors.Is(err, pawl.ErrInvalid), errors.Unwrap(err))
	w = pawl.Define("ship", func(pawl.Context, int) (bool, error) { return true, nil },
		//pawlvet:ignore the mistake that is tested
		pawl.Defaults(pawl.Retry("twice")))
	fmt.Println(errors.Is(w.Err(), pawl.ErrInvalid), w.Err())
	// Output:
	// true pawl: step "rest": duration: unknown unit "weeks" at position 3 in "3 weeks"; write 21d
	// true pawl: workflow "ship": defaults: retry: "twice": not a retry policy; write fixed(3, 1s), exponential(3, 1s) or none
}
