// Package share makes a process a node of a cluster: it answers the other nodes, takes its share of the partitions and
// forwards what concerns runs of others. A pawl server and a Go program both use it.
package share

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
)

// Config says what a node is.
type Config struct {
	ID      string // the name of the node. Default: that of the machine, with random letters
	Address string // HOST:PORT where the other nodes reach it. Default: where it listens
	Keys    *wire.Keys
	Version string
	Program bool // it is a Go program, and no pawl server
	// Peers are addresses of other nodes, which are asked what they have seen of the database before this one takes
	// partitions, beside those that the database names.
	Peers []string
	Dial  wire.Dial // connects to other nodes. nil: the network of this machine
	Log   *slog.Logger
}

// Node is this process as a node.
type Node struct {
	cfg     Config
	node    cluster.Node
	nodes   *wire.Nodes
	others  *wire.Others
	member  atomic.Pointer[cluster.Member]
	storage cluster.Storage
	seen    journal.Remembering
	lease   time.Duration
	asking  context.CancelFunc // ends the questions to other nodes; nil: none are asked
	asked   sync.WaitGroup
	http    *http.Server
	ended   chan error
	hints   wire.Hints

	namespace string   // empty: the default one
	main      *Node    // the node of the default namespace; nil: this is it
	spaces    sync.Map // the nodes of the other namespaces of that node, by name
}

// CheckAddresses refuses addresses at which no other node could reach this one. listenAt and reachedAt are what the
// user calls the two settings. An address at which others reach it may be empty.
func CheckAddresses(listenAt, listen, reachedAt, reached string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("%s %q: write it as HOST:PORT, such as 10.0.0.5:7296", listenAt, listen)
	}
	if reached == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("%s %q is every address of this machine: say with %s at which one the other nodes "+
				"reach it", listenAt, listen, reachedAt)
		}
		return nil
	}
	if host, port, err := net.SplitHostPort(reached); err != nil || host == "" || port == "" {
		return fmt.Errorf("%s %q: write it as HOST:PORT, as the other nodes reach this one", reachedAt, reached)
	}
	return nil
}

// New returns a node that has not joined yet. Call Stop in the end.
func New(cfg Config) *Node {
	n := &Node{cfg: cfg, nodes: wire.NewNodes(cfg.Keys, cfg.Dial, cfg.Log)}
	n.node = cluster.Node{
		ID:      cmp.Or(cfg.ID, ownName()),
		Version: cfg.Version, Secret: cfg.Keys.Fingerprint,
	}
	if cfg.Program {
		n.node.Secret = cluster.OfProgram + n.node.Secret
	}
	n.others = wire.NewOthers(n.nodes, n.node.ID)
	return n
}

// ownName makes the name of a node on this machine.
func ownName() string {
	name, err := os.Hostname()
	if err != nil {
		name = "node"
	}
	name, _, _ = strings.Cut(name, ".")
	return strings.ToLower(name + "-" + rand.Text()[:8])
}

// In returns the node as it takes part in the work on a namespace, whose runs are in a database of their own. It has
// the name and the address of n, and listens with it.
func (n *Node) In(namespace string) *Node {
	in := &Node{cfg: n.cfg, node: n.node, nodes: n.nodes.In(namespace), main: n}
	in.cfg.Log = n.cfg.Log.With("namespace", namespace)
	in.others = wire.NewOthers(in.nodes, n.node.ID)
	in.namespace = namespace
	return in
}

// hear returns the receiver of hints about a namespace.
func (n *Node) hear(namespace string) (h wire.Hints, ok bool) {
	if namespace == "" {
		return n.hints, true
	}
	if in, ok := n.spaces.Load(namespace); ok {
		return in.(*Node).hints, true
	}
	return h, false
}

// ID returns the name of the node.
func (n *Node) ID() string { return n.node.ID }

// Operator returns the view that people have of the nodes. The node has been configured.
func (n *Node) Operator() Operator { return Operator{n.storage} }

// Member returns the node as the table of nodes has it, or nil if it has not joined.
func (n *Node) Member() *cluster.Member { return n.member.Load() }

// Coordinator reports whether this node, which owns some partitions, runs the cluster-wide chores. Two nodes may both
// do so for a moment.
func (n *Node) Coordinator(owned []int) bool {
	m := n.Member()
	return m != nil && slices.Contains(owned, m.Snapshot().Coordinator())
}

// Configure makes an engine one of several on its journal.
func (n *Node) Configure(cfg *engine.Config) error {
	j, ok := cfg.Journal.(cluster.Shareable)
	if !ok {
		return errors.New("only a database in PostgreSQL can be shared: name it with postgres://…")
	}
	n.storage, n.lease = j.Nodes()
	n.seen = cfg.Journal
	cfg.Shared, cfg.Owner, cfg.Sent = true, n.node.ID, n.others.Expect
	return nil
}

// drained reports whether the node was asked to give its partitions to others. In a namespace it does what it was asked
// in the default one.
func (n *Node) drained() bool {
	return slices.ContainsFunc(n.Member().Snapshot().Nodes, func(o cluster.Node) bool {
		return o.ID == n.node.ID && o.Leaving
	})
}

// movePatience is how long after the end of a dead owner's lease a request still waits for the next owner.
const movePatience = 2 * time.Second

// Service answers requests about the runs of all nodes. It must not be called before Configure.
func (n *Node) Service(own *service.Embedded, e *engine.Engine) *service.Routed {
	return service.NewRouted(own, e, n.others, n.lease+movePatience)
}

// Tasks returns the task queues of all nodes.
func (n *Node) Tasks(own api.Tasks, e *engine.Engine) api.Tasks {
	return wire.NewTasks(own, func(run core.RunID) int { return e.PartitionOf(run) }, n.others)
}

// Changes returns what happens in the runs of all nodes.
func (n *Node) Changes(own api.Changes) api.Changes {
	return wire.NewChanges(own, n.others, n.lease+movePatience)
}

// Bodies lets processes that serve workflows join each node through any one.
func (n *Node) Bodies(own api.Bodies) api.Bodies { return wire.NewBodies(own, n.others) }

// TellWebhooks tells the other nodes that webhooks or deliveries have changed.
func (n *Node) TellWebhooks(ctx context.Context) { n.others.WebhooksChanged(ctx) }

// OnWebhooks sets what is done when another node reports a change of webhooks. Call it before Join.
func (n *Node) OnWebhooks(refresh func(context.Context) error) { n.hints.Webhooks = refresh }

// Failing returns why this node cannot take or keep partitions at present, or nil if it can.
func (n *Node) Failing() error { return n.others.Failing() }

// Join answers the other nodes with h, and makes this one take its share of the partitions.
func (n *Node) Join(ctx context.Context, l net.Listener, e *engine.Engine, h http.Handler) error {
	n.listen(e)
	n.http, n.ended = n.nodes.Server(n.nodes.Handler(h, n.hear)), make(chan error, 1)
	go func() { n.ended <- n.http.ServeTLS(l, "", "") }()
	n.node.Address = cmp.Or(n.cfg.Address, l.Addr().String())
	if err := n.nodes.Check(ctx, n.node); err != nil {
		n.cfg.Log.Warn("this node does not reach itself at the address that it tells the others", "address",
			n.node.Address, "error", err)
	}
	return n.enter(ctx, e)
}

// Enter makes this node take its share of the partitions of a namespace. The node of the default one has joined.
func (n *Node) Enter(ctx context.Context, e *engine.Engine) error {
	n.node.Address = n.main.node.Address
	n.listen(e)
	n.main.spaces.Store(n.namespace, n)
	return n.enter(ctx, e)
}

// listen says what is done when other nodes tell something.
func (n *Node) listen(e *engine.Engine) {
	n.hints.Look = func() {
		if m := n.Member(); m != nil { // else it reads the table soon
			m.Look()
		}
	}
	n.hints.Expect, n.hints.Seen = e.ExpectAt, n.seen.Seen
}

// enter puts the node on the table.
func (n *Node) enter(ctx context.Context, e *engine.Engine) error {
	log := n.cfg.Log
	if err := n.learn(ctx); err != nil {
		return errors.Join(err, n.Stop())
	}
	cfg := cluster.Config{
		Node: n.node, Storage: n.storage, Engine: e, Every: n.lease / 6, Log: log,
		Moved: func(ctx context.Context, stand cluster.Snapshot) { n.nodes.Look(ctx, n.node.ID, stand) },
	}
	if n.main != nil {
		cfg.Drained = n.main.drained
	}
	m, err := cluster.Join(ctx, cfg)
	if err != nil {
		return errors.Join(err, n.Stop())
	}
	n.member.Store(m)
	n.others.Attach(m)
	n.keepAsking()
	log.Info("joined the cluster", "node", n.node.ID, "address", n.node.Address)
	log.Info("limits of queues and services are counted by each node for its own runs: set each to what one node " +
		"may do")
	n.compareClocks(ctx)
	for _, other := range m.Snapshot().Nodes {
		if other.Alive && other.ID != n.node.ID {
			if err := n.nodes.Check(ctx, other); err != nil {
				log.Warn("another node does not answer", "node", other.ID, "address", other.Address, "error", err)
			}
		}
	}
	return nil
}

// mostOff is how much the clocks of nodes and of the database may differ until something is said.
const mostOff = time.Second

// compareClocks warns if the clock of this machine and that of the database differ. Leases do not mind, but what a run
// waits for comes early or late when it moves between nodes whose clocks differ.
func (n *Node) compareClocks(ctx context.Context) {
	before := time.Now()
	shows, err := n.storage.Now(ctx)
	if err != nil {
		n.cfg.Log.Warn("the clock of the database cannot be read", "error", err)
		return
	}
	if ahead, behind := before.Sub(shows), time.Until(shows); max(ahead, behind) > mostOff {
		n.cfg.Log.Warn("the clocks of this machine and of the database differ: sleeps and deadlines go by the clock "+
			"of the node that has the run, so let all machines ask the same time server", "this machine", before,
			"database", shows)
	}
}

// Leave gives the partitions to the other nodes. Requests about them are forwarded from then on.
func (n *Node) Leave(ctx context.Context) error {
	if m := n.Member(); m != nil {
		return m.Leave(ctx)
	}
	return nil
}

// answerWithin is how long requests that other nodes have sent may take when this one stops. What they ask to be saved
// is on its way to the disk; a request that waits for something is cut off, and is made again elsewhere.
const answerWithin = 2 * time.Second

// Stop answers no further nodes, but completes the open requests.
func (n *Node) Stop() error {
	if n.asking != nil {
		n.asking()
		n.asked.Wait()
	}
	if n.main != nil {
		n.main.spaces.Delete(n.namespace)
	}
	if n.http == nil {
		n.nodes.Close()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	err := n.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	err = errors.Join(err, n.http.Close())
	n.nodes.Close()
	if ended := <-n.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	n.http = nil
	return err
}
