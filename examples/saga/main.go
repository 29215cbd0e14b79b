// Command saga takes orders. An order reserves the goods, charges the card, waits for the courier and ships. If it
// cannot go on, it undoes what it did: because a step failed, because it was cancelled, or because its time was over.
//
//	go run ./examples/saga              five orders; the last one cannot be shipped
//	kill -9 the process, and start it again: it goes on where it was
//	Ctrl-C                              cancels the open orders and waits until they are undone
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "saga:", err)
		os.Exit(1)
	}
}

type order struct {
	ID   string `json:"id"`
	Item string `json:"item"`
}

type receipt struct {
	Shipped string `json:"shipped"`
}

// shop holds the systems that the workflow works with.
type shop struct {
	ledger *ledger
	pace   time.Duration
}

var errCannotShip = errors.New("a unicorn cannot be shipped")

// patient is the policy of steps that undo something: they are retried until they work, or their time is over.
var patient = pawl.MustPolicy(pawl.Retry(pawl.RetryPolicy{MaxAttempts: -1, MaxInterval: time.Minute}))

func (s *shop) workflow() *pawl.Workflow[order, receipt] {
	return pawl.Define("order", s.take, pawl.RunTimeout("1h"), pawl.CompensationTimeout("1h"))
}

// take runs the saga.
func (s *shop) take(ctx pawl.Context, o order) (receipt, error) {
	var undo pawl.Compensations
	r, err := s.place(ctx, o, &undo)
	if err != nil {
		return receipt{}, errors.Join(err, undo.Run(ctx))
	}
	return r, nil
}

// place does one thing after the other. What undoes a step is added before the step: a step that fails may have done
// its work all the same.
func (s *shop) place(ctx pawl.Context, o order, undo *pawl.Compensations) (receipt, error) {
	undo.Add(ctx, "release", func(ctx context.Context) error {
		return s.ledger.undo(ctx, "release", "reserve", o.ID)
	}, patient)
	if err := pawl.Do(ctx, "reserve", func(ctx context.Context) error {
		return s.ledger.do(ctx, "reserve", o.ID)
	}); err != nil {
		return receipt{}, err
	}

	undo.Add(ctx, "refund", func(ctx context.Context) error {
		return s.ledger.undo(ctx, "refund", "charge", o.ID)
	}, patient)
	if err := pawl.Do(ctx, "charge", func(ctx context.Context) error {
		return s.ledger.do(ctx, "charge", o.ID)
	}); err != nil {
		return receipt{}, err
	}

	if err := pawl.Sleep(ctx, "courier", 3*s.pace); err != nil {
		return receipt{}, err
	}
	// Goods that are shipped cannot be taken back. So shipping is detached: once it has begun, nothing interrupts it.
	return pawl.Step(pawl.Detached(ctx), "ship", func(ctx context.Context) (receipt, error) {
		if o.Item == "unicorn" {
			return receipt{}, errCannotShip
		}
		return receipt{Shipped: o.Item}, s.ledger.do(ctx, "ship", o.ID)
	})
}

func run(args []string) error {
	flags := flag.NewFlagSet("saga", flag.ContinueOnError)
	dir := flags.String("dir", filepath.Join("pawl-data", "saga"), "folder of the database and the ledger")
	orders := flags.Int("orders", 5, "how many orders are taken")
	pace := flags.Duration("pace", time.Second, "how long a step takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*dir, 0o700); err != nil {
		return err
	}
	l, err := openLedger(filepath.Join(*dir, "ledger"), *pace)
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	w := (&shop{l, *pace}).workflow()
	eng, err := pawl.Open(context.Background(), pawl.Config{
		Database: "sqlite:" + filepath.Join(*dir, "saga.db"), Workflows: []pawl.Definition{w},
	})
	if err != nil {
		return err
	}
	return errors.Join(takeOrders(eng, w, *orders, interrupted), eng.Close())
}

// takeOrders starts the orders, or finds them where an earlier life of the program has started them, and waits for
// their ends. Ctrl-C cancels those that are open.
func takeOrders(eng *pawl.Engine, w *pawl.Workflow[order, receipt], n int, interrupted <-chan os.Signal) error {
	ctx := context.Background()
	fmt.Println("taking orders; Ctrl-C cancels them")

	runs := make([]pawl.Run[receipt], n)
	ended := make(chan string, n)
	for i := range runs {
		o := order{ID: fmt.Sprintf("order-%d", i+1), Item: "book"}
		if (i+1)%5 == 0 {
			o.Item = "unicorn"
		}
		r, err := w.Start(ctx, eng, o.ID, o, pawl.IdempotencyKey(o.ID))
		if err != nil {
			return err
		}
		runs[i] = r
		go func() {
			got, err := r.Result(ctx)
			switch {
			case err != nil:
				ended <- fmt.Sprintf("%s: %v", o.ID, err)
			default:
				ended <- fmt.Sprintf("%s: shipped a %s", o.ID, got.Shipped)
			}
		}()
	}
	for open := n; open > 0; {
		select {
		case line := <-ended:
			open--
			fmt.Println(line)
		case <-interrupted:
			for _, r := range runs {
				// An order that has ended, or is being cancelled already, stays as it is.
				err := r.Cancel(ctx, "Ctrl-C")
				if err != nil && !errors.Is(err, pawl.ErrConflict) && !errors.Is(err, pawl.ErrRunClosed) {
					return err
				}
			}
		}
	}
	return nil
}
