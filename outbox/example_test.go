package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/outbox"
)

// Example shows a shop that saves an order and starts its workflow in one transaction, while a relay runs beside.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan string)
	fulfil := pawl.Define("fulfil", func(ctx pawl.Context, order string) (string, error) {
		return pawl.Step(ctx, "pack", func(context.Context) (string, error) {
			done <- order + " is packed"
			return "", nil
		})
	})
	eng, _ := pawl.Open(ctx, pawl.Config{Database: "memory:", Workflows: []pawl.Definition{fulfil}})
	defer func() { _ = eng.Close() }()

	db, _ := sql.Open("sqlite", ":memory:") // the shop's own database
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	box, _ := outbox.New(db, outbox.Config{Every: 10 * time.Millisecond})
	if err := box.Create(ctx); err != nil {
		fmt.Println(err)
	}
	relayed := make(chan error)
	go func() { relayed <- box.Relay(ctx, eng) }()

	tx, _ := db.BeginTx(ctx, nil)
	// … the shop's own rows …
	if err := outbox.StartIn(ctx, box, outbox.SQLTx(tx), fulfil, "order-1", "order-1"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(tx.Commit())

	fmt.Println(<-done)
	stop()
	fmt.Println(<-relayed)
	// Output:
	// <nil>
	// order-1 is packed
	// context canceled
}

// ExampleSendIn shows that events reach a run in the order in which their transactions wrote them.
func ExampleSendIn() {
	ctx := context.Background()
	w := pawl.Define("order", func(ctx pawl.Context, _ any) (string, error) {
		return pawl.Event[string]("paid").Wait(ctx)
	})
	eng, _ := pawl.Open(ctx, pawl.Config{Database: "memory:", Workflows: []pawl.Definition{w}})
	defer func() { _ = eng.Close() }()
	db, _ := sql.Open("sqlite", ":memory:")
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	box, _ := outbox.New(db, outbox.Config{})
	if err := box.Create(ctx); err != nil {
		fmt.Println(err)
	}

	run, _ := w.Start(ctx, eng, "order-2", nil)
	tx, _ := db.BeginTx(ctx, nil)
	if err := outbox.SendIn(ctx, box, outbox.SQLTx(tx), "order-2", "paid", "by card"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(tx.Commit())
	if err := box.RelayOnce(ctx, eng); err != nil { // a service has Relay run beside
		fmt.Println(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// <nil>
	// by card <nil>
}
