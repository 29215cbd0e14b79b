package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
	"github.com/pawl-dev/pawl/internal/service"
)

const (
	clusterListenFlag  = "cluster-listen"
	clusterAddressFlag = "cluster-address"
	clusterSecretFlag  = "cluster-secret-file"
)

// sharing is what a server has that shares its database with other servers, the nodes of a cluster.
type sharing struct {
	listen, address, secretFile string

	node    cluster.Node
	nodes   *wire.Nodes
	others  *wire.Others
	member  *cluster.Member
	storage cluster.Storage
	lease   time.Duration
	http    *http.Server
	ended   chan error
}

// prepare checks what was given, before anything is opened.
func (s *sharing) prepare(a *app, g *guarding) error {
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return usage("--%s %q: write it as HOST:PORT, such as 10.0.0.5:7296", clusterListenFlag, s.listen)
	}
	switch ip := net.ParseIP(host); {
	case s.secretFile == "":
		return usage("--%s needs --%s: a file with the secret that all nodes have; openssl rand -hex 32 makes one",
			clusterListenFlag, clusterSecretFlag)
	case s.address == "" && (host == "" || ip != nil && ip.IsUnspecified()):
		return usage("--%s %s listens on every address of this machine: say with --%s at which one the other nodes "+
			"reach it", clusterListenFlag, s.listen, clusterAddressFlag)
	case len(g.namespaces) > 0:
		return usage("a cluster has no namespaces yet: leave --%s out", namespacesFlag)
	case !strings.HasPrefix(a.database, "postgres"):
		return usage("--%s: only a database in PostgreSQL can be shared; write --database postgres://…",
			clusterListenFlag)
	}
	if s.address != "" {
		if host, port, err := net.SplitHostPort(s.address); err != nil || host == "" || port == "" {
			return usage("--%s %q: write it as HOST:PORT, as the other nodes reach this one", clusterAddressFlag,
				s.address)
		}
	}
	keys, err := wire.ReadKeys(s.secretFile)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		name = "node"
	}
	name, _, _ = strings.Cut(name, ".")
	s.node = cluster.Node{
		ID:      strings.ToLower(name + "-" + rand.Text()[:8]),
		Version: buildVersion(), Secret: keys.Fingerprint,
	}
	s.nodes = wire.NewNodes(keys, g.log)
	s.others = wire.NewOthers(s.nodes, s.node.ID)
	return nil
}

// prepareSharing checks what was given about a cluster, if something was.
func (a *app) prepareSharing(g *guarding) error {
	if g.sharing.listen == "" {
		if g.sharing.address+g.sharing.secretFile != "" {
			return usage("--%s and --%s are for nodes of a cluster: give --%s, too", clusterAddressFlag,
				clusterSecretFlag, clusterListenFlag)
		}
		return nil
	}
	if err := g.sharing.prepare(a, g); err != nil {
		return err
	}
	a.sharing = &g.sharing
	return nil
}

// configure makes an engine one of several on its journal.
func (s *sharing) configure(cfg *engine.Config) error {
	var ok bool
	if s.storage, s.lease, ok = postgres.Nodes(cfg.Journal); !ok {
		return errors.New("the database cannot be shared")
	}
	cfg.Shared, cfg.Owner, cfg.Sent = true, s.node.ID, s.others.Expect
	return nil
}

// movePatience is how long after the end of a dead owner's lease a request still waits for the next owner.
const movePatience = 2 * time.Second

// service answers requests about the runs of all nodes.
func (s *sharing) service(m *machine) api.Service {
	return service.NewSpread(m.embedded, m.Engine, s.others, s.lease+movePatience)
}

func (s *sharing) tasks(m *machine) api.Tasks {
	return wire.NewTasks(m.queues, func(run core.RunID) int { return m.PartitionOf(run) }, s.others)
}

// join answers the other nodes, and makes this one take its share.
func (s *sharing) join(ctx context.Context, m *machine, g *guarding) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return inUse(s.listen, err)
	}
	s.node.Address = cmp.Or(s.address, l.Addr().String())
	look := func() {
		if s.member != nil {
			s.member.Look()
		}
	}
	joined := make(chan struct{})
	handler := s.nodes.Handler(m.serving.ForNodes(), func() { <-joined; look() }, m.ExpectAt)
	s.http, s.ended = s.nodes.Server(handler), make(chan error, 1)
	go func() { s.ended <- s.http.ServeTLS(l, "", "") }()
	if err := s.nodes.Check(ctx, s.node); err != nil {
		g.log.Warn("this node does not reach itself at the address that it tells the others", "address", s.node.Address,
			"error", err)
	}
	s.member, err = cluster.Join(ctx, cluster.Config{
		Node: s.node, Storage: s.storage, Engine: m.Engine, Every: s.lease / 6, Log: g.log,
		Moved: func(ctx context.Context, stand cluster.Stand) { s.nodes.Look(ctx, s.node.ID, stand) },
	})
	close(joined)
	if err != nil {
		return errors.Join(err, s.stop())
	}
	s.others.Attach(s.member)
	m.metrics.ReadCluster(func() int { return len(m.Owned()) }, s.member.Moves)
	g.log.Info("joined the cluster", "node", s.node.ID, "address", s.node.Address)
	g.log.Info("limits of queues and services are counted by each node for its own runs: set each to what one node " +
		"may do")
	for _, n := range s.member.Stand().Nodes {
		if n.Alive && n.ID != s.node.ID {
			if err := s.nodes.Check(ctx, n); err != nil {
				g.log.Warn("another node does not answer", "node", n.ID, "address", n.Address, "error", err)
			}
		}
	}
	return nil
}

// leave gives the partitions to the other nodes. Requests about them are forwarded from then on.
func (s *sharing) leave(ctx context.Context) error {
	if s.member == nil {
		return nil
	}
	return s.member.Leave(ctx)
}

// stop answers no other nodes any more.
func (s *sharing) stop() error {
	s.nodes.Close()
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	s.http = nil
	return err
}

// nodesOf returns the table of nodes of a database.
func nodesOf(j journal.Journal) (cluster.Storage, error) {
	nodes, _, ok := postgres.Nodes(j)
	if !ok {
		return nil, fmt.Errorf("only a database in PostgreSQL has nodes; name it with --database postgres://…")
	}
	return nodes, nil
}
