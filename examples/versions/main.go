// Command versions changes a workflow while runs of it are open. It has three versions of the code, as three deploys
// of a program would:
//
//	v1       packs an order, waits, and sends it
//	wrong    also wraps it, with a new step between the old ones
//	v2       does the same, and says so: orders that were packed by v1 go on without it
//
//	go run ./examples/versions                 deploys one after the other
//	go run ./examples/versions -code v1        one by itself; kill it, or press Ctrl-C, and deploy another
//	rm -r pawl-data/versions                   to begin anew
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // where the runs are kept
)

// depot holds the systems that the workflow works with. The log represents the work of the people there.
type depot struct {
	log  io.Writer
	wait time.Duration
}

// version returns the workflow with the given version of the code. In all of them it has the same name.
func (d *depot) version(code string) (*pawl.Workflow[string, string], error) {
	bodies := map[string]func(pawl.Context, string) (string, error){"v1": d.v1, "wrong": d.wrong, "v2": d.v2}
	body, known := bodies[code]
	if !known {
		return nil, fmt.Errorf("there is no code %q, only v1, wrong and v2", code)
	}
	return pawl.Define("order", body, pawl.Defaults(pawl.Retry("fixed(3, 1s)"))), nil
}

func (d *depot) v1(ctx pawl.Context, order string) (string, error) {
	if err := d.does(ctx, "pack", order); err != nil {
		return "", err
	}
	if err := pawl.Sleep(ctx, "courier", d.wait); err != nil {
		return "", err
	}
	return "sent", d.does(ctx, "send", order)
}

// wrong runs a new step where v1 had the sleep. An order that waits for the courier has passed that place: the body is
// called again and asks for "wrap", but the history has "courier". So the run waits, with a ChangedError.
func (d *depot) wrong(ctx pawl.Context, order string) (string, error) {
	if err := d.does(ctx, "pack", order); err != nil {
		return "", err
	}
	if err := d.does(ctx, "wrap", order); err != nil {
		return "", err
	}
	if err := pawl.Sleep(ctx, "courier", d.wait); err != nil {
		return "", err
	}
	return "sent and wrapped", d.does(ctx, "send", order)
}

// v2 asks for the version of the run: 1 if it had passed this point before the change, 2 if it reaches it now. What it
// gets is recorded. Once no run of version 1 is open, make it Version(ctx, "wrap", 2, 2).
func (d *depot) v2(ctx pawl.Context, order string) (string, error) {
	if err := d.does(ctx, "pack", order); err != nil {
		return "", err
	}
	sent := "sent"
	switch v, err := pawl.Version(ctx, "wrap", 1, 2); {
	case err != nil:
		return "", err
	case v >= 2:
		sent = "sent and wrapped"
		if err := d.does(ctx, "wrap", order); err != nil {
			return "", err
		}
	}
	if err := pawl.Sleep(ctx, "courier", d.wait); err != nil {
		return "", err
	}
	return sent, d.does(ctx, "send", order)
}

func (d *depot) does(ctx pawl.Context, what, order string) error {
	return pawl.Do(ctx, what, func(context.Context) error {
		_, err := fmt.Fprintln(d.log, order, what)
		return err
	})
}

func main() {
	dir := flag.String("dir", filepath.Join("pawl-data", "versions"), "folder of the database and the log")
	code := flag.String("code", "v1,wrong,v2", "versions of the code, one deployed after the other")
	orders := flag.Int("orders", 3, "how many orders v1 and v2 take each")
	wait := flag.Duration("wait", 3*time.Second, "how long an order waits for the courier")
	flag.Parse()
	for _, code := range strings.Split(*code, ",") {
		if err := deploy(*dir, code, *orders, *wait); err != nil {
			fmt.Fprintln(os.Stderr, "versions:", err)
			os.Exit(1)
		}
	}
}

// deploy runs a version of the code: v1 for half the time that an order waits, wrong for longer than that, and v2 until
// all orders are sent. The wrong code takes no orders: v2 does not fit those.
func deploy(dir, code string, orders int, wait time.Duration) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	w, err := (&depot{log, wait}).version(code)
	if err != nil {
		return err
	}
	ctx := context.Background()
	eng, err := pawl.Open(ctx, pawl.Config{
		Database: "sqlite:" + filepath.Join(dir, "pawl.db"), Workflows: []pawl.Definition{w},
		Log: slog.New(slog.DiscardHandler), // it would print what is shown below
	})
	if err != nil {
		return err
	}
	fmt.Println("deployed", code)
	lasts := map[string]time.Duration{"v1": wait / 2, "wrong": 2 * wait}[code]
	if lasts > 0 {
		limited, stop := context.WithTimeout(ctx, lasts)
		defer stop()
		ctx = limited
	}
	if code == "wrong" {
		orders = 0
	}
	return errors.Join(take(ctx, eng, w, code, orders), eng.Close())
}

// take starts orders and shows what happens to all of them, until ctx is done.
func take(ctx context.Context, eng *pawl.Engine, w *pawl.Workflow[string, string], code string, orders int) error {
	for i := range orders {
		id := fmt.Sprintf("%s-%d", code, i+1)
		if _, err := w.Start(ctx, eng, id, id, pawl.IdempotencyKey(id)); err != nil {
			return err
		}
	}
	all, err := eng.ListRuns(ctx, client.Query{Workflow: w.Name(), Limit: 1000})
	if err != nil {
		return err
	}
	for _, order := range all {
		out, err := pawl.RunOf[string](eng, order.ID).Result(ctx)
		var changed *pawl.ChangedError
		switch {
		case errors.As(err, &changed): // the run cannot go on: it stays open, and waits for code that fits
			fmt.Printf("%s: %v\n", order.WorkflowID, changed)
		case errors.Is(err, context.DeadlineExceeded):
			fmt.Printf("%s waits for the courier\n", order.WorkflowID)
		case err != nil:
			return err
		default:
			fmt.Printf("%s: %s\n", order.WorkflowID, out)
		}
	}
	return nil
}
