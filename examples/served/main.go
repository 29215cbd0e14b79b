// Command served runs the bodies of a workflow in a separate process, for a server. In three terminals:
//
//	go run ./cmd/pawl dev --database sqlite:/tmp/served.db
//	go run ./examples/served serve
//	go run ./examples/served order 3
//
// Stop the second one while an order is on its way, and start it again: the order goes on. Start it twice: the two
// share the orders. PAWL_SERVER and PAWL_TOKEN name another server.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// order packs parcels one after the other. Packed orders stay packed, whichever process stops.
var order = pawl.Define("parcels", func(ctx pawl.Context, parcels int) (string, error) {
	run := pawl.Info(ctx).ID
	for i := range parcels {
		err := pawl.Do(ctx, fmt.Sprintf("pack %d", i+1), func(ctx context.Context) error {
			fmt.Printf("order %s: parcel %d\n", run, i+1)
			return work(ctx)
		})
		if err != nil {
			return "", err
		}
		if err := pawl.Sleep(ctx, "carry", time.Second); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d parcels", parcels), nil
}, pawl.RunTimeout("1h"))

// work takes a moment.
func work(ctx context.Context) error {
	select {
	case <-time.After(500 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	server := cmp.Or(os.Getenv("PAWL_SERVER"), "http://127.0.0.1:7295")
	token := os.Getenv("PAWL_TOKEN")
	switch {
	case len(args) == 1 && args[0] == "serve":
		return pawlhttp.Serve(ctx, server, pawlhttp.ServeConfig{
			Token: token, Workflows: []pawl.Definition{order},
		})
	case len(args) == 2 && args[0] == "order":
		return place(ctx, server, token, args[1])
	default:
		return errors.New("usage: served serve | served order PARCELS")
	}
}

// place starts an order and waits for it.
func place(ctx context.Context, server, token, text string) error {
	parcels := 0
	if _, err := fmt.Sscan(text, &parcels); err != nil {
		return fmt.Errorf("%q is not a number of parcels", text)
	}
	c, err := pawlhttp.Connect(server, pawlhttp.ClientConfig{Token: token})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	r, err := order.Start(ctx, c, "", parcels)
	if err != nil {
		return err
	}
	fmt.Println("order", r.ID)
	done, err := r.Result(ctx)
	if err == nil {
		fmt.Println(done)
	}
	return err
}
