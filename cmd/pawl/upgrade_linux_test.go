package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// upgradedFrom is the version that the nodes of TestRollingUpgrade have at first: the first one whose servers were
// nodes. Its schema has version 7.
const upgradedFrom = "1ba3e8a2632a9a64938498a0545f68932a27f236"

// TestRollingUpgrade replaces the nodes of a cluster, one after the other, by nodes of this version, while runs are
// started and end. No request fails for longer than partitions take to move.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "it builds an older version")
	old := built(t, upgradedFrom)
	server := pgtest.StartServer(t)
	b := nodesBedOf(t, server.DSN(), old)
	olds, clients := [3]*process{}, [3]*httpapi.Client{}
	for i := range olds {
		olds[i], clients[i] = b.node()
	}
	b.await(2, 2, 2)
	b.ends(clients[0], b.start(clients[1], "before", 6))

	asked := &rotating{clients: slices.Clone(clients[:])}
	flow := b.flowing(asked)
	b.binary = ""
	for i := range olds {
		_, c := b.node()
		b.await(2, 2, 1, 1)
		asked.replace(i, c)
		b.works(c, clients[2]) // until that is the node that stops
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
			t.Errorf("a run of the older version: %+v, %v", r, err)
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
	for _, b.binary = range []string{"", old} {
		refusedBy(t, launchable(b), "(?s)needs code that knows version 99; this one knows")
	}
}

// launchable is a node that has not been started.
func launchable(b *nodesBed) *exec.Cmd {
	return b.command(append([]string{"server", "--listen", "127.0.0.1:0"}, b.flags("secret")...)...)
}

// built returns the binary of an older version.
func built(t *testing.T, commit string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("the older version %s is not here (a clone without its history?): %v %s", commit, err, out)
	}
	dir := t.TempDir()
	unpack := fmt.Sprintf("git -C '%s' archive %s | tar -x -C '%s'", root, commit, dir)
	if out, err := exec.Command("sh", "-c", unpack).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path := filepath.Join(dir, "pawl-before")
	args := []string{"build", "-buildvcs=false", "-trimpath", "-o", path, "./cmd/pawl"}
	build := exec.Command("go", args...)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
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
