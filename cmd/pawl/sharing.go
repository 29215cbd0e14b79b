package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	clusterListenFlag  = "cluster-listen"
	clusterAddressFlag = "cluster-address"
	clusterSecretFlag  = "cluster-secret-file"
	clusterPeersFlag   = "cluster-peers"
)

// sharing is what a server has if it shares its database with other servers, the nodes of a cluster.
type sharing struct {
	listen, address, secretFile string
	peers                       []string // addresses of other nodes

	*share.Node              // nil if it shares nothing
	listener    net.Listener // the address at which it answers the other nodes
}

// prepare checks the settings, before anything is opened.
func (s *sharing) prepare(database string, g *guarding) error {
	err := share.CheckAddresses("--"+clusterListenFlag, s.listen, "--"+clusterAddressFlag, s.address)
	if err != nil {
		return asUsage(err)
	}
	switch {
	case s.secretFile == "":
		return usage("--%s needs --%s: a file with the secret that all nodes have; openssl rand -hex 32 makes one",
			clusterListenFlag, clusterSecretFlag)
	case !strings.HasPrefix(database, "postgres"):
		return usage("--%s: only a database in PostgreSQL can be shared; write --database postgres://…",
			clusterListenFlag)
	}
	for _, peer := range s.peers {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			return usage("--%s %q: write the address at which a node is reached by others, as HOST:PORT",
				clusterPeersFlag, peer)
		}
	}
	keys, err := wire.ReadKeys(s.secretFile)
	if err != nil {
		return err
	}
	s.Node = share.New(share.Config{
		Address: s.address, Peers: s.peers, Keys: keys, Version: buildVersion(), Log: g.log,
	})
	return nil
}

// prepareSharing checks the settings of a cluster, if there are any.
func (a serverVerbs) prepareSharing(g *guarding) error {
	if g.sharing.listen == "" {
		if g.sharing.address+g.sharing.secretFile != "" || len(g.sharing.peers) > 0 {
			return usage("--%s, --%s and --%s are for nodes of a cluster: give --%s, too", clusterAddressFlag,
				clusterPeersFlag, clusterSecretFlag, clusterListenFlag)
		}
		return nil
	}
	return g.sharing.prepare(a.database, g)
}

// open listens for the other nodes, if this server is one of several.
func (s *sharing) open(ctx context.Context) (closeIt func(), err error) {
	if s.Node == nil {
		return func() {}, nil
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.listen); err != nil {
		return nil, inUse(clusterListenFlag, s.listen, err)
	}
	return func() { _ = s.listener.Close() }, nil // it is closed already if the server has joined
}

// in returns the server's part in the work on a namespace; empty: the default one. nil if it shares nothing.
func (s *sharing) in(namespace string) *daemon.Cluster {
	switch {
	case s.Node == nil:
		return nil
	case namespace == "":
		return &daemon.Cluster{Node: s.Node, Listener: s.listener}
	default:
		return &daemon.Cluster{Node: s.In(namespace)}
	}
}

// nodesOf returns the table of nodes of a database.
func nodesOf(j journal.Journal) (cluster.Storage, error) {
	shared, ok := j.(cluster.Shareable)
	if !ok {
		return nil, fmt.Errorf("only a database in PostgreSQL has nodes; name it with --database postgres://…")
	}
	nodes, _ := shared.Nodes()
	return nodes, nil
}

// whileHeld refuses a database that living nodes of a cluster share, or says that another process is waited for.
func whileHeld(ctx context.Context, j journal.Journal, err *journal.HeldError, to io.Writer) error {
	if nodes, none := nodesOf(j); none == nil {
		s, unread := nodes.Snapshot(ctx)
		if unread == nil && slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return n.Alive }) {
			return fmt.Errorf("%w; nodes share this database: ask one of them with --server URL, or start another one "+
				"with --%s", err, clusterListenFlag)
		}
	}
	fmt.Fprintf(to, "pawl: the database is held by %s: waiting for up to %s, in case that process was killed\n",
		err.Owner, duration.Format(err.Term))
	return nil
}
