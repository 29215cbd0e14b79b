package pawltest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/policy"
)

// term is how long the lease of a partition lasts in a test. That is the default of a database, too.
const term = 30 * time.Second

// shares is how many partitions a database has for each node.
const shares = 2

// RunNodes runs a test in virtual time with several nodes of a cluster, as those of package pawlcluster. They share a
// database in memory, and reach each other over connections in memory. When the test begins, each has its share of the
// partitions. Nodes of the same test have the same fakes, whichever of them these were made with.
//
// [Env.Kill] and [Env.Crash] end a node without a word: the others take over when its leases of 30 seconds have ended.
// [Env.Close] and [Env.Restart] let it hand over what it has. A virtual day of a cluster takes a moment, since nodes
// tell each other that they are there.
func RunNodes(t *testing.T, count int, cfg pawl.Config, test func(t *testing.T, nodes []*Env)) {
	checkGiven(t != nil && test != nil)
	t.Helper()
	if cfg.Journal != nil || cfg.Database != "" || cfg.Cluster != nil {
		t.Fatal("pawltest: the nodes of a test have a database of their own: leave out Journal, Database and Cluster")
	}
	synctest.Test(t, func(t *testing.T) {
		disk := memory.NewPartitions(shares * count)
		disk.Term, disk.Now = term, func() core.Time { return policy.At(time.Now()) }
		keys, err := wire.NewKeys([]byte(strings.Repeat("the secret of a test", 2)))
		if err != nil {
			t.Fatal(err)
		}
		network := new(memnet.Net)
		fakes, stops := newFakeTable(t), newStops(cfg.Observer.BodyStopped)
		var nodes []*Env
		for i := range count {
			e := newEnv(t, cfg, fakes, stops)
			e.node = &node{name: fmt.Sprint("node-", i+1), disk: disk, network: network, keys: keys}
			e.open()
			defer func() { _ = e.Engine.Close() }()
			nodes = append(nodes, e)
		}
		nodes[0].Skip(term) // each takes its share, and gives back what is too much
		test(t, nodes)
		for _, e := range nodes {
			e.end()
		}
		fakes.check()
	})
}

// node is what an engine under test has as a node of a cluster. It is a pawl.Cluster.
type node struct {
	name    string
	disk    *memory.Journal
	network *memnet.Net
	keys    *wire.Keys

	// The process that the engine lives in at present.
	journal  memory.Shared
	host     *memnet.Peer
	listener *memnet.Listener
}

// begin begins another process.
func (n *node) begin() (journal.Journal, pawl.Cluster) {
	n.journal, n.host = n.disk.Share(), memnet.NewPeer(n.network.Dial)
	n.listener = n.network.Listen(n.name + ":7296")
	return n.journal, n
}

func (n *node) Join(_ context.Context, log *slog.Logger) (served.Member, error) {
	return daemon.NewMember(share.New(share.Config{
		ID: n.name, Keys: n.keys, Version: "program", Program: true, Dial: n.host.Dial, Log: log,
	}), n.listener, log), nil
}

// die ends the process: nobody reaches it, and it reaches nobody.
func (n *node) die() {
	n.journal.Cut()
	_ = n.listener.Close()
	n.listener.Cut()
	n.host.Die()
}
