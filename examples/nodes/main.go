// Command nodes is a Go program whose processes share one database in PostgreSQL. In several terminals:
//
//	openssl rand -hex 32 > nodes.secret
//	go run ./examples/nodes -database postgres://… -listen 127.0.0.1:7301
//	go run ./examples/nodes -database postgres://… -listen 127.0.0.1:7302
//	go run ./examples/nodes -database postgres://… -listen 127.0.0.1:7303 -orders 20
//
// The third one also starts orders, waits for them and leaves. Each process prints which partitions it owns and what it
// packs. Kill one with kill -9 while orders are on their way: after 3 seconds the others go on with them.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/postgres"
	"github.com/pawl-dev/pawl/pawlcluster"
)

// order packs three parcels one after the other. Packed orders stay packed, whichever node stops.
var order = pawl.Define("order", func(ctx pawl.Context, number int) (string, error) {
	for i := range 3 {
		name := fmt.Sprintf("pack %d", i+1)
		err := pawl.Do(ctx, name, func(ctx context.Context) error {
			fmt.Printf("order %d: %s\n", number, name)
			return work(ctx)
		})
		if err != nil {
			return "", err
		}
		if err := pawl.Sleep(ctx, "carry", time.Second); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("order %d is done", number), nil
}, pawl.RunTimeout("1h"))

// work takes a moment.
func work(ctx context.Context) error {
	select {
	case <-time.After(200 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func main() {
	database := flag.String("database", "", "the address of the database: postgres://…")
	listen := flag.String("listen", "127.0.0.1:0", "where the other processes reach this one: HOST:PORT")
	secret := flag.String("secret", "nodes.secret", "the file with the secret of all processes")
	orders := flag.Int("orders", 0, "how many orders to start, to wait for, and then to leave (default: only serve)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *database, *listen, *secret, *orders); err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, database, listen, file string, orders int) error {
	secret, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	slog.SetLogLoggerLevel(slog.LevelWarn)
	node, err := pawl.Open(ctx, pawl.Config{
		Database: database, Workflows: []pawl.Definition{order},
		Cluster: pawlcluster.Node{Listen: listen, Secret: bytes.TrimSpace(secret)},
	})
	if err != nil {
		return err
	}
	name, _ := node.Node()
	fmt.Println("node", name)
	if orders > 0 {
		err = place(ctx, node, orders)
	} else {
		serve(ctx, node)
	}
	return errors.Join(err, node.Close())
}

// serve prints which partitions the node owns, until ctx is done.
func serve(ctx context.Context, node *pawl.Engine) {
	said := ""
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, owned := node.Node()
		if now := fmt.Sprint(owned); now != said {
			said = now
			fmt.Println("partitions", now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// start starts an order. A node that dies at that moment leaves open whether it was saved, so it is started again under
// the same id.
func start(ctx context.Context, node *pawl.Engine, number int) (pawl.Run[string], error) {
	for {
		r, err := order.Start(ctx, node, fmt.Sprint("order-", number), number, pawl.UseExisting())
		if !errors.Is(err, pawlcluster.ErrUncertain) {
			return r, err
		}
	}
}

// place starts orders and waits for all of them.
func place(ctx context.Context, node *pawl.Engine, orders int) error {
	var runs []pawl.Run[string]
	for i := range orders {
		r, err := start(ctx, node, i)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	for _, r := range runs {
		done, err := r.Result(ctx)
		if err != nil {
			return err
		}
		fmt.Println(done)
	}
	return nil
}
