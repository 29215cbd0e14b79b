// Command hello is a Go program with one workflow: an order that is charged, settles and is shipped.
//
//	go run ./examples/hello             keeps its run in ./shop.db; once more, and it takes another order
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
)

// order runs the workflow. Each step is recorded, and is not run again after a crash.
func order(ctx pawl.Context, item string) (string, error) {
	txn, err := pawl.Step(ctx, "charge", func(context.Context) (string, error) {
		return "txn for " + item, nil
	}, pawl.Retry("exponential(5, 1s, max=30s)"), pawl.Timeout("5m"))
	if err != nil {
		return "", err
	}
	if err := pawl.Sleep(ctx, "settle", time.Second); err != nil { // or a month: it holds no goroutine
		return "", err
	}
	return "shipped " + item + ", paid by " + txn, nil
}

func main() {
	ctx := context.Background()
	workflow := pawl.Define("order", order, pawl.RunTimeout("30m"))
	eng, err := pawl.Open(ctx, pawl.Config{Database: "sqlite:shop.db", Workflows: []pawl.Definition{workflow}})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	run, err := workflow.Start(ctx, eng, "order-42", "a book")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
}
