package main

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// in returns a client of a node for what is in a namespace, and how its partitions are shared.
func (b *nodesBed) in(p *process, token string) *httpapi.Client {
	b.Helper()
	c, err := httpapi.New(p.address)
	if err == nil {
		err = c.Show(token, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// awaitIn waits until the nodes have so many partitions of a namespace each, as await does for the default one.
func (b *nodesBed) awaitIn(c *httpapi.Client, shares ...int) {
	b.Helper()
	var status api.ClusterStatus
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var err error
		if status, err = c.Cluster(b.Context()); err != nil {
			b.Fatal(err)
		}
		if sharesAre(status, shares) {
			return
		}
	}
	b.Fatalf("the shares never became %v: %+v", shares, status)
}

// TestNamespacesOfACluster checks that the nodes share the partitions of each namespace. Any node answers for all, and
// no namespace sees anything of another. A node that is drained or dies is so in all of them.
func TestNamespacesOfACluster(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	b.more = []string{"--namespaces", "blue"}
	blueFlows := filepath.Join(b.dir, "flows", "blue")
	if err := os.Mkdir(blueFlows, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, blueFlows, "work.yaml", workFlow)
	write(t, blueFlows, "eventful.yaml", eventful)
	token := strings.TrimSpace(b.pawl("token", "create", "bea", "--role", "admin", "--namespace", "blue"))
	a, atA := b.node()
	dies, atB := b.node()
	blueA, blueB := b.in(a, token), b.in(dies, token)
	b.await(3, 3)
	b.awaitIn(blueA, 3, 3)

	plain, blue := b.start(atA, "same", 12), b.start(blueB, "same", 12)
	b.ends(atB, plain)
	b.ends(blueA, blue)
	if _, err := atA.Run(t.Context(), blue[0]); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("a run of another namespace, asked for at one node: %v", err)
	}
	if _, err := blueB.Run(t.Context(), plain[0]); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("a run of another namespace, asked for at the other node: %v", err)
	}

	heard := newInbox(t)
	heard.register(a, token)
	f := b.follow(blueA, "")
	f.hears(b.start(blueB, "heard", 12))
	heard.await(t, "the end of the runs", func() bool { return heard.ended == 12 })

	node := b.await(3, 3).Nodes[0].ID
	b.pawl("cluster", "drain", node)
	b.awaitIn(blueB, 6)
	b.pawl("cluster", "drain", node, "--undo")
	b.await(3, 3)
	b.awaitIn(blueB, 3, 3)

	blue = b.start(blueB, "killed", 12)
	if err := dies.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.await(6)
	b.awaitIn(blueA, 6)
	b.ends(blueA, blue)
	// The database knows the owner before the owner itself has opened the partition and counts it.
	for end := time.Now().Add(patience); ; {
		status, text := a.ask(token, "GET", "/metrics", "")
		if status == http.StatusOK && strings.Contains(text, `pawl_partitions_owned{namespace="blue"} 6`) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d partitions of the namespace are counted: %s", status, text)
		}
	}
}

// TestStoresOfANamespace checks that a namespace has stores of its own. Whoever works in one namespace alone cannot
// change them.
func TestStoresOfANamespace(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	b.more = []string{"--namespaces", "blue"}
	blueFlows := filepath.Join(b.dir, "flows", "blue")
	if err := os.Mkdir(blueFlows, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, blueFlows, "work.yaml", workFlow)
	second, err := url.Parse(pgtest.StartServer(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := second.User.Password()
	b.env = append(b.env, "PAWL_STORE_B_PASSWORD="+password)
	second.User = url.User(second.User.Username())
	token := func(name, namespace string) string {
		return strings.TrimSpace(b.pawl("token", "create", name, "--role", "admin", "--namespace", namespace))
	}
	bea, root := token("bea", "blue"), token("root", "*")
	a, atA := b.node()
	dies, _ := b.node()
	blue := b.in(a, bea)
	b.await(3, 3)
	b.awaitIn(blue, 3, 3)

	add := api.StoreAdd{Name: "b", Address: second.String() + "&schema=kept"}
	for what, err := range map[string]error{
		"add": blue.AddStore(t.Context(), add), "remove": blue.RemoveStore(t.Context(), api.StoreRemove{Name: "b"}),
		"move":  blue.MoveToStore(t.Context(), api.StoreMove{Partition: 1, Store: "b"}),
		"drain": blue.Drain(t.Context(), api.NodeDrain{Node: b.await(3, 3).Nodes[0].ID}),
	} {
		if api.CodeOf(err) != api.CodeForbidden {
			t.Errorf("%s, by the admin of one namespace: %v", what, err)
		}
	}
	whole := b.in(a, root)
	whole.In("blue")
	if err := whole.AddStore(t.Context(), add); err != nil {
		t.Fatal(err)
	}
	b.reached(blue)
	for _, p := range []int{1, 4} {
		if err := whole.MoveToStore(t.Context(), api.StoreMove{Partition: p, Store: "b"}); err != nil {
			t.Fatal(err)
		}
	}
	b.keeping(blue, "b", 1, 4)
	b.ends(blue, b.start(blue, "moved", 12))
	b.ends(atA, b.start(atA, "moved", 12))
	if s, err := atA.Cluster(t.Context()); err != nil || len(s.Stores) != 1 {
		t.Errorf("the store of a namespace is one of another: %+v, %v", s, err)
	}
	ids := b.start(blue, "killed", 12)
	if err := dies.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.awaitIn(blue, 6)
	b.ends(blue, ids)
	b.keeping(blue, "b", 1, 4)
}
