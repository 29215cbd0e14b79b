package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// packing has how often each parcel was packed to the end.
type packing struct {
	mu   sync.Mutex
	done map[string]int
}

// times returns how often a parcel of a run was packed.
func (p *packing) times(run string, parcel int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[fmt.Sprintf("%s/%d", run, parcel)]
}

// parcels packs three parcels and waits for word in between.
func (p *packing) parcels() *pawl.Workflow[int, string] {
	return pawl.Define("parcels", func(ctx pawl.Context, n int) (string, error) {
		run := pawl.Info(ctx).ID
		for i := range n {
			parcel := fmt.Sprintf("%s/%d", run, i)
			if err := pawl.Do(ctx, fmt.Sprint("pack ", i), func(context.Context) error {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.done[parcel]++
				return nil
			}); err != nil {
				return "", err
			}
			if err := pawl.Sleep(ctx, fmt.Sprint("carry ", i), 300*time.Millisecond); err != nil {
				return "", err
			}
		}
		return fmt.Sprint(n, " parcels"), nil
	})
}

const sign pawl.Update[string, string] = "sign"

// signed waits for a signature.
func signed() *pawl.Workflow[struct{}, string] {
	return pawl.Define("signed", func(ctx pawl.Context, _ struct{}) (string, error) {
		by := ""
		err := sign.Handle(ctx, nil, func(_ pawl.Context, who string) (string, error) {
			by = who
			return "thank you, " + who, nil
		})
		return by, err
	})
}

// signs starts runs through one node and signs them through another one.
func (b *nodesBed) signs(start, at *process, name string, n int) {
	b.Helper()
	connect := func(p *process) *pawlhttp.Client {
		c, err := pawlhttp.Connect(p.address, pawlhttp.ClientConfig{Token: b.token})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		return c
	}
	starts, signs := connect(start), connect(at)
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		run, err := pawl.Ref[struct{}, string]("signed").Start(ctx, starts, id, struct{}{})
		if err != nil {
			b.Fatal(err)
		}
		if answer, err := sign.Send(ctx, signs, id, "eve"); err != nil || answer != "thank you, eve" {
			b.Errorf("the answer to a signature: %q, %v", answer, err)
		}
		if by, err := run.Result(ctx); err != nil || by != "eve" {
			b.Errorf("run %s: %q, %v", id, by, err)
		}
	}
}

// serving serves workflows through a node until the function that it returns is called.
func (b *nodesBed) serving(at *process, workflows ...pawl.Definition) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- pawlhttp.Serve(ctx, at.address, pawlhttp.ServeConfig{
			Token: b.token, Workflows: workflows, Concurrency: 30,
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return stop
}

// parcels starts runs through a node.
func (b *nodesBed) parcels(c *httpapi.Client, name string, n int) (ids []string) {
	b.Helper()
	for i := range n {
		r := api.StartRequest{WorkflowID: fmt.Sprintf("%s-%d", name, i), UseExisting: true, Input: []byte("3")}
		ids = append(ids, b.sent(c, "parcels", r))
	}
	return ids
}

// TestServedInACluster checks that a process that serves workflows through one node gets the runs of all, with another
// process beside it, while nodes die, come and leave, and partitions move. It is not parallel: a node that waits too
// long for a processor loses its lease, and a parcel is packed again.
func TestServedInACluster(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	b, _ := newNodesBed(t)
	b.token = strings.TrimSpace(b.pawl("token", "create", "bob", "--role", "admin"))
	a, atA := b.node()
	dies, _ := b.node()
	c, atC := b.node()
	b.await(2, 2, 2)
	p := &packing{done: map[string]int{}}
	first := b.serving(a, p.parcels(), signed())
	b.serving(c, p.parcels(), signed())

	calm := b.parcels(atA, "calm", 12)
	b.ends(atC, calm)
	for _, id := range calm {
		for i := range 3 {
			if n := p.times(id, i); n != 1 {
				t.Errorf("parcel %d of run %s was packed %d times", i, id, n)
			}
		}
	}

	b.signs(a, c, "calm", 6)

	ids := b.parcels(atC, "killed", 12)
	if err := dies.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.await(3, 3)
	b.ends(atA, ids)
	b.signs(c, a, "killed", 6)

	ids = b.parcels(atC, "moved", 12)
	_, atD := b.node()
	nodes := b.await(2, 2, 2).Nodes
	node := nodes[slices.IndexFunc(nodes, func(n api.ClusterNode) bool { return n.State == "alive" })].ID
	b.pawl("cluster", "drain", node)
	b.await(3, 3)
	b.pawl("cluster", "drain", node, "--undo")
	b.await(2, 2, 2)
	b.ends(atD, ids)

	ids = b.parcels(atD, "left", 12)
	first() // the other process goes on with all
	b.ends(atA, ids)
}
