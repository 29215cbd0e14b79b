package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	clusterListenFlag  = "cluster-listen"
	clusterAddressFlag = "cluster-address"
	clusterSecretFlag  = "cluster-secret-file"
)

// sharing is what a server has that shares its database with other servers, the nodes of a cluster.
type sharing struct {
	listen, address, secretFile string

	*share.Node
}

// prepare checks what was given, before anything is opened.
func (s *sharing) prepare(a *app, g *guarding) error {
	err := share.CheckAddresses("--"+clusterListenFlag, s.listen, "--"+clusterAddressFlag, s.address)
	if err != nil {
		return asUsage(err)
	}
	switch {
	case s.secretFile == "":
		return usage("--%s needs --%s: a file with the secret that all nodes have; openssl rand -hex 32 makes one",
			clusterListenFlag, clusterSecretFlag)
	case !strings.HasPrefix(a.database, "postgres"):
		return usage("--%s: only a database in PostgreSQL can be shared; write --database postgres://…",
			clusterListenFlag)
	}
	keys, err := wire.ReadKeys(s.secretFile)
	if err != nil {
		return err
	}
	s.Node = share.New(share.Config{
		Address: s.address, Keys: keys, Version: buildVersion(), Log: g.log,
	})
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

// join answers the other nodes, and makes this one take its share.
func (s *sharing) join(ctx context.Context, m *machine) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return inUse(clusterListenFlag, s.listen, err)
	}
	if err := s.Join(ctx, l, m.Engine, m.serving.ForNodes()); err != nil {
		return err
	}
	m.metrics.ReadCluster(m.PartitionCount(), func() int { return len(m.Owned()) }, s.Member().Moves)
	return nil
}

// in returns what a server has that shares the database of a namespace, too. nil: it shares nothing.
func (s *sharing) in(namespace string) *sharing {
	if s == nil || namespace == "" {
		return s
	}
	return &sharing{Node: s.In(namespace)}
}

// enter makes this node take its share of a namespace.
func (s *sharing) enter(ctx context.Context, m *machine) error {
	if err := s.Enter(ctx, m.Engine); err != nil {
		return err
	}
	m.metrics.ReadCluster(m.PartitionCount(), func() int { return len(m.Owned()) }, s.Member().Moves)
	return nil
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

// besideNodes adds to an error of a held database that a cluster of nodes owns it.
func besideNodes(ctx context.Context, j journal.Journal, err error) error {
	if !errors.Is(err, journal.ErrHeld) {
		return err
	}
	nodes, none := nodesOf(j)
	if none != nil {
		return err
	}
	s, unread := nodes.Snapshot(ctx)
	if unread != nil || !slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return n.Alive }) {
		return err
	}
	return fmt.Errorf("%w; nodes share this database: ask one of them with --server URL, or start another one with "+
		"--%s", err, clusterListenFlag)
}
