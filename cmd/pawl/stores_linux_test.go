package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// keeping waits until a store keeps these partitions, and none is on its way.
func (b *nodesBed) keeping(c *httpapi.Client, store string, partitions ...int) {
	b.Helper()
	var s api.ClusterStatus
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s, err = c.Cluster(b.Context())
		i := slices.IndexFunc(s.Stores, func(s api.ClusterStore) bool { return s.Name == store })
		if err == nil && i >= 0 && slices.Equal(s.Stores[i].Partitions, partitions) && len(s.Free) == 0 {
			return
		}
	}
	b.Fatalf("the store %s never kept %v: %+v, %v", store, partitions, s.Stores, err)
}

// listsWithout checks that a list is refused while a store does not answer, and waits until the cluster says which
// one it is.
func (b *nodesBed) listsWithout(c *httpapi.Client, store string) {
	b.Helper()
	if _, err := c.Runs(b.Context(), api.Query{}); api.CodeOf(err) != api.CodeStalled {
		b.Errorf("a list without the store %s: %v", store, err)
	}
	var s api.ClusterStatus
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s, err = c.Cluster(b.Context())
		if err == nil && slices.ContainsFunc(s.Stores, func(s api.ClusterStore) bool {
			return s.Name == store && s.Problem != ""
		}) {
			return
		}
	}
	b.Errorf("nothing says that the store %s does not answer: %+v, %v", store, s.Stores, err)
}

// reached waits until every node has reached all stores.
func (b *nodesBed) reached(c *httpapi.Client) {
	b.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s, err := c.Cluster(b.Context())
		if err == nil && !slices.ContainsFunc(s.Stores, func(s api.ClusterStore) bool { return len(s.Unreached) > 0 }) {
			return
		}
	}
	b.Fatal("the stores were not reached")
}

// TestStores moves partitions of two nodes to another PostgreSQL server and back, while runs are started, and kills the
// node that moves one. Each run ends once. While that server does not answer, its partitions alone stand still, and a
// list names it.
func TestStores(t *testing.T) {
	nightly.Only(t, "two database servers share partitions")
	t.Parallel()
	server := pgtest.StartServer(t)
	b := nodesBedOn(t, server.DSN()+"&statement_timeout=3s", server.Lease())
	proxy := pgtest.NewProxy(t, pgtest.StartServer(t).DSN())
	address, err := url.Parse(proxy.DSN())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := address.User.Password()
	b.env = append(b.env, "PAWL_STORE_B_PASSWORD="+password)
	address.User = url.User(address.User.Username())
	_, atA := b.node()
	second, atB := b.node()
	b.await(3, 3)
	b.pawl("cluster", "store", "add", "b", address.String())
	b.reached(atA)

	stop := make(chan struct{})
	var ids []string
	var load sync.WaitGroup
	load.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				ids = append(ids, b.start(atA, fmt.Sprint("load-", n), 1)...)
			}
		}
	})
	for _, p := range []int{0, 2, 4} {
		b.pawl("cluster", "store", "move", fmt.Sprint(p), "b")
	}
	b.keeping(atB, "b", 0, 2, 4)
	if err := atA.MoveToStore(t.Context(), api.StoreMove{Partition: 2, Store: "first"}); err != nil {
		t.Fatal(err)
	}
	if err := atA.MoveToStore(t.Context(), api.StoreMove{Partition: 5, Store: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.keeping(atA, "b", 0, 4, 5)
	close(stop)
	load.Wait()
	t.Logf("%d runs were started", len(ids))
	b.ends(atA, ids)
	b.once(atA, ids)

	proxy.Hold()
	var calm []string
	for n := 0; len(calm) < 12; n++ {
		if id := fmt.Sprint("calm-", n); core.KeyOfWorkflowID(id)%6%2 == 1 && core.KeyOfWorkflowID(id)%6 != 5 {
			calm = append(calm, b.sent(atA, "work", api.StartRequest{WorkflowID: id}))
		}
	}
	b.ends(atA, calm)
	b.listsWithout(atA, "b")
	proxy.Release()
	b.ends(atA, b.start(atA, "after", 12))

	err = atA.RemoveStore(t.Context(), api.StoreRemove{Name: "b"})
	if !errors.Is(err, api.Sentinel(api.CodeConflict)) || !strings.Contains(fmt.Sprint(err), "0, 4, 5") {
		t.Errorf("a store with partitions was removed: %v", err)
	}
	for _, p := range []int{0, 4, 5} {
		b.pawl("cluster", "store", "move", fmt.Sprint(p), "first")
	}
	b.keeping(atA, "first", 0, 1, 2, 3, 4, 5)
	b.removed("b")
	b.ends(atA, b.start(atA, "without", 12))
	if s, err := atA.Cluster(t.Context()); err != nil || len(s.Stores) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if out := b.pawl("doctor"); !strings.Contains(out, "Nothing is wrong") {
		t.Error(out)
	}
}

// removed removes a store, as soon as no move that is over but for its last step is in the way.
func (b *nodesBed) removed(store string) {
	b.Helper()
	var out []byte
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var err error
		remove := b.command("cluster", "store", "remove", store, "--database", b.database)
		if out, err = remove.CombinedOutput(); err == nil {
			return
		}
	}
	b.Fatalf("%s", out)
}

// once checks that each run is listed once, and that none has done a step twice.
func (b *nodesBed) once(c *httpapi.Client, ids []string) {
	b.Helper()
	seen := map[string]int{}
	q := api.Query{Limit: 200}
	for {
		page, err := c.Runs(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range page.Runs {
			seen[r.Run]++
		}
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	for _, id := range ids {
		if seen[id] != 1 {
			b.Errorf("run %s is listed %d times", id, seen[id])
		}
	}
	if len(seen) != len(ids) {
		b.Errorf("%d runs were started, and %d are listed", len(ids), len(seen))
	}
}
