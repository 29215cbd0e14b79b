// Command nodes is a Go program whose processes share one database in PostgreSQL. In several terminals:
//
//	openssl rand -hex 32 > nodes.secret
//	go run ./examples/nodes -database postgres://… -listen 127.0.0.1:7301
//	go run ./examples/nodes -database postgres://… -listen 127.0.0.1:7302
//	go run ./examples/nodes -database postgres://… -listen 127.0.0.1:7303 -orders 20
//
// The third one also takes orders, says where they go, waits for them and leaves. Each process prints which partitions
// it owns and what it does for the orders. Kill one with kill -9 while orders are on their way: after 3 seconds the
// others go on with them. Kill the third one, and start it again: it asks for the same, and gets the same answers.
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

func main() {
	database := flag.String("database", "", "the address of the database: postgres://…")
	listen := flag.String("listen", "127.0.0.1:0", "where the other processes reach this one: HOST:PORT")
	secret := flag.String("secret", "nodes.secret", "the file with the secret of all processes")
	orders := flag.Int("orders", 0, "how many orders to take, to wait for, and then to leave (default: only serve)")
	from := flag.Int("from", 0, "the number of the first order")
	ledger := flag.String("ledger", "", "a file to write into what is done (default: the standard output)")
	pace := flag.Duration("pace", 200*time.Millisecond, "how long a step takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &shop{out: os.Stdout, pace: *pace}
	err := s.write(*ledger)
	if err == nil {
		err = s.run(ctx, *database, *listen, *secret, *from, *orders)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}
}

// run works as a node until ctx is done, or its orders are.
func (s *shop) run(ctx context.Context, database, listen, file string, from, orders int) error {
	secret, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	slog.SetLogLoggerLevel(slog.LevelWarn)
	w := s.workflow()
	node, err := pawl.Open(ctx, pawl.Config{
		Database: database, Workflows: []pawl.Definition{w},
		Cluster: pawlcluster.Node{Listen: listen, Secret: bytes.TrimSpace(secret)},
	})
	if err != nil {
		return err
	}
	err = node.Serve("couriers", 100, s.courier())
	name, _ := node.Node()
	fmt.Println("node", name)
	switch {
	case err != nil:
	case orders > 0:
		err = s.take(ctx, node, w, from, orders)
	default:
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
