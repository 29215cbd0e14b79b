package pawlhttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl"
	_ "github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawlhttp"
)

type (
	Pages  struct{ Pages int }
	Result struct{ Rendered int }
)

// ExampleWorker shows a program that executes the tasks Render of a server's queue, until it gets SIGTERM.
func ExampleWorker() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	render := pawl.Handle("Render", func(ctx context.Context, in Pages) (Result, error) {
		var at pawl.Heartbeat[int]
		page, _ := at.Last(ctx) // where the attempt before this one was
		for ; page < in.Pages && ctx.Err() == nil; page++ {
			at.Beat(ctx, page)
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

// ExampleConnect shows a program that works with an engine of its own, or with a server: one line decides.
func ExampleConnect() {
	greet := pawl.Define("greet", func(_ pawl.Context, name string) (string, error) { return "hello, " + name, nil })
	hello := func(c pawl.Client) {
		r, err := greet.Start(context.Background(), c, "", "Ann")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Result(context.Background()))
	}

	cfg := pawl.Config{Database: "memory:", Workflows: []pawl.Definition{greet}}
	engine, err := pawl.Open(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	hello(engine)

	server := httptest.NewServer(pawlhttp.Handler(engine, nil)) // the program that has the workflows does this
	defer server.Close()
	address := server.URL
	client, err := pawlhttp.Connect(address, pawlhttp.ClientConfig{}) // it replaces pawl.Open
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	hello(client)
	// Output:
	// hello, Ann <nil>
	// hello, Ann <nil>
}

// ExampleHandler shows how the program that has the workflows serves its engine to clients of any kind on this machine.
func ExampleHandler() {
	ctx := context.Background()
	engine, err := pawl.Open(ctx, pawl.Config{Database: "memory:"})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	err = http.ListenAndServe("127.0.0.1:7295", pawlhttp.Handler(engine, nil))
	log.Fatal(err)
}
