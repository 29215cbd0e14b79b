package postgres_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/journal/postgres"
)

// TestOpen gives an engine a journal that is open already, and another one the address.
func TestOpen(t *testing.T) {
	address := pgtest.StartServer(t).DSN()
	j, err := postgres.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	w := pawl.Define("double", func(_ pawl.Context, n int) (int, error) { return 2 * n, nil })
	for n, cfg := range []pawl.Config{{Journal: j}, {Database: address}} {
		cfg.Workflows = []pawl.Definition{w}
		e, err := pawl.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.Start(t.Context(), e, "", n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Result(t.Context()); err != nil || got != 2*n {
			t.Errorf("%d, %v", got, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if _, err := postgres.Open(context.WithoutCancel(t.Context()), "postgres:"); err == nil {
		t.Error("opened an address that names nothing")
	}
}
