//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// A process serves workflows to pawl server with a worker's token, for the namespace of the token.
func TestServesBodies(t *testing.T) {
	dir := t.TempDir()
	const database = "sqlite:p.db"
	token := func(name, role string, more ...string) string {
		return createToken(t, dir, database, append([]string{name, "--role", role}, more...)...)
	}
	worker, operator := token("w", "worker", "--namespace", "blue"), token("o", "operate", "--namespace", "blue")
	mail, stranger := token("m", "worker", "--queue", "mail"), token("s", "operate")
	p := startServer(t, dir, "--namespaces", "blue", "--database", database)

	const add pawl.Update[int, int] = "add"
	sum := pawl.Define("sum", func(ctx pawl.Context, n int) (int, error) {
		err := add.Handle(ctx, nil, func(ctx pawl.Context, more int) (int, error) {
			n += more
			return n, nil
		})
		if err != nil {
			return 0, err
		}
		return pawl.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	serve := func(ctx context.Context, token string) error {
		return pawlhttp.Serve(ctx, p.address, pawlhttp.ServeConfig{
			Access: pawlhttp.Access{Token: token}, Config: pawl.Config{Workflows: []pawl.Definition{sum}},
		})
	}
	for token, want := range map[string]string{mail: "queues mail", operator: "role operate", "nonsense": "token"} {
		if err := serve(t.Context(), token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, worker) }()

	c, err := pawlhttp.Connect(p.address, pawlhttp.Access{Token: operator}, pawl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := sum.Start(t.Context(), c, "s-1", 1)
	for errors.Is(err, pawl.ErrNotFound) { // it has not joined yet
		r, err = sum.Start(t.Context(), c, "s-1", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if status, text := p.ask(stranger, "GET", "/api/v1/runs/s-1", ""); status != http.StatusNotFound {
		t.Errorf("the run in another namespace: %d %s", status, text)
	}
	if status, text := p.ask(stranger, "POST", "/api/v1/runs", `{"workflow":"sum"}`); status != http.StatusNotFound {
		t.Errorf("the workflow in another namespace: %d %s", status, text)
	}
	if n, err := add.Send(t.Context(), c, r.ID, 4); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := r.Result(t.Context()); n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
