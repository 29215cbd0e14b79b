package pawlhttp_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawlhttp"
)

type (
	Pages  struct{ Pages int }
	Result struct{ Rendered int }
)

// A program that executes the tasks Render of a server's queue, until it gets SIGTERM.
func ExampleWorker() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	render := pawl.Handle("Render", func(ctx context.Context, in Pages) (Result, error) {
		page, _ := pawl.LastHeartbeat[int](ctx) // where the attempt before this one was
		for ; page < in.Pages && ctx.Err() == nil; page++ {
			pawl.Heartbeat(ctx, page)
		}
		return Result{page}, ctx.Err()
	})
	err := pawlhttp.Worker{
		Server: "http://127.0.0.1:7295", Queue: "reports", Slots: 8, Handlers: []pawl.AnyHandler{render},
	}.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
}
