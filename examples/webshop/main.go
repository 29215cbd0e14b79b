// Command webshop takes orders by HTTP. It saves an order and starts its workflow in one transaction of its own
// database: there is no order without a workflow, and no workflow without an order, even if the process dies.
//
//	go run ./examples/webshop
//	curl -d '{"id": "order-1", "item": "book"}' localhost:8080/orders
//	curl localhost:8080/orders/order-1
//	Ctrl-C                                    lets the steps that run end, then stops
//
// Kill it with kill -9 and start it again: it goes on with the open orders. Remove pawl-data/webshop to begin anew.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the shop's database

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
	"github.com/pawl-dev/pawl/outbox"
)

func main() {
	dir := flag.String("dir", filepath.Join("pawl-data", "webshop"), "folder of the databases")
	address := flag.String("address", "localhost:8080", "where the shop listens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *address); err != nil {
		fmt.Fprintln(os.Stderr, "webshop:", err)
		os.Exit(1)
	}
}

// run serves the shop until ctx is done.
func run(ctx context.Context, dir, address string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s, err := openShop(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer s.db.Close()
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{s.fulfil},
	})
	if err != nil {
		return err
	}

	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		_ = s.box.Relay(ctx, eng) // runs until ctx is done, beside the rest of the program
	}()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	fmt.Println("the shop is open at http://" + listener.Addr().String())

	<-ctx.Done()
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	err = server.Shutdown(soon) // no new orders, …
	<-relayed
	return errors.Join(err, eng.Shutdown(soon)) // … and no new attempts; the next life goes on
}

func openShop(ctx context.Context, path string) (*shop, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_txlock=immediate&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(db, outbox.Config{})
	if err != nil {
		return nil, err
	}
	s := &shop{db: db, box: box}
	s.fulfil = pawl.Define("fulfil", s.deliver, pawl.Defaults(pawl.Retry("exponential(10, 200ms, max=1m)")))
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL, status TEXT NOT NULL);
		CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, order_id TEXT NOT NULL)`)
	return s, errors.Join(err, box.Create(ctx))
}
