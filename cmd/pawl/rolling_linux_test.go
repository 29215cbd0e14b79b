package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestRollingUpgrade replaces the nodes of a cluster, one after the other, by new ones, while runs are started and end.
// No request fails for longer than partitions take to move.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "it replaces all nodes of a cluster")
	server := pgtest.StartServer(t)
	b := nodesBedOn(t, server.DSN(), server.Lease())
	olds, clients := [3]*process{}, [3]*httpapi.Client{}
	for i := range olds {
		olds[i], clients[i] = b.node()
	}
	b.await(2, 2, 2)
	b.ends(clients[0], b.start(clients[1], "before", 6))

	asked := &rotating{clients: slices.Clone(clients[:])}
	flow := b.flowing(asked)
	for i := range olds {
		_, c := b.node()
		b.await(2, 2, 1, 1)
		asked.replace(i, c)
		b.works(c, clients[2]) // the third node gives out the work, until it is the one that stops
		if err := olds[i].cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		b.await(2, 2, 2)
		clients[i] = c
	}
	ids, longest := flow()
	t.Logf("%d runs were started meanwhile, one of them only after %s", len(ids), longest)
	b.ends(clients[0], ids)
	for _, c := range clients {
		if r, err := c.Run(t.Context(), "before-3"); err != nil || r.Phase != api.RunSucceeded {
			t.Errorf("a run of the nodes before: %+v, %v", r, err)
		}
	}
	b.pawl("doctor")

	// A version of later may make a schema that this one does not know.
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "UPDATE pawl.meta SET value = '99' WHERE key = 'oldest'"); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, launchable(b), "(?s)needs code that knows version 99; this one knows 1: use the newer Pawl")
}

// launchable returns the command of a node that has not been started.
func launchable(b *nodesBed) *exec.Cmd {
	return b.command(append([]string{"server", "--listen", "127.0.0.1:0"}, b.flags("secret")...)...)
}

// rotating are the nodes that callers ask, in turns.
type rotating struct {
	mu      sync.Mutex
	clients []*httpapi.Client
	next    int
}

func (r *rotating) replace(i int, c *httpapi.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[i] = c
}

func (r *rotating) client() *httpapi.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = (r.next + 1) % len(r.clients)
	return r.clients[r.next]
}

// flowing starts runs through the nodes in turns until the function that it returns is called. That returns the runs,
// and for how long one of them could not be started.
func (b *nodesBed) flowing(at *rotating) (stop func() (ids []string, longest time.Duration)) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	type told struct {
		ids     []string
		longest time.Duration
		err     error
	}
	done := make(chan told, 1)
	go func() {
		var out told
		for i := 0; ctx.Err() == nil; i++ {
			r := api.StartRequest{WorkflowID: fmt.Sprint("flowing-", i), UseExisting: true}
			began := time.Now()
			started, err := at.client().StartNamed(ctx, "work", r)
			for ; err != nil && ctx.Err() == nil; started, err = at.client().StartNamed(ctx, "work", r) {
				if time.Since(began) > patience {
					out.err = errors.Join(out.err, err)
					cancel()
				}
			}
			if err == nil {
				out.ids = append(out.ids, started.Run)
				out.longest = max(out.longest, time.Since(began))
			}
		}
		done <- out
	}()
	return func() ([]string, time.Duration) {
		b.Helper()
		cancel()
		out := <-done
		if out.err != nil || len(out.ids) == 0 {
			b.Errorf("%d runs were started: %v", len(out.ids), out.err)
		}
		return out.ids, out.longest
	}
}
