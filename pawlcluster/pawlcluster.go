// Package pawlcluster lets several processes of a Go program share one database in PostgreSQL: each is a node that owns
// a share of the partitions and works with the runs of all of them. When a node dies, the others go on with its runs as
// soon as its leases have ended.
//
//	eng, err := pawl.Open(ctx, pawl.Config{
//		Database: "postgres://…", Workflows: all,
//		Cluster:  pawlcluster.Node{Listen: "10.0.0.5:7296", Secret: secret},
//	})
//	run, err := fulfil.Start(ctx, eng, "order-42", order)
//
// Every process needs the same workflows, codec and secret. The partitions of the database must be as many as the nodes
// or more: ?partitions=64 of the address when the database is made; 8 by default.
package pawlcluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/served"
)

// Node defines how the other nodes reach this one. It is a [pawl.Cluster].
type Node struct {
	Listen  string // HOST:PORT at which it answers the other nodes
	Address string // HOST:PORT where these reach it. Default: where it listens
	// Secret is shared by all nodes of the cluster: 32 random bytes or more. Who has it can do everything.
	Secret []byte
}

var _ pawl.Cluster = Node{}

// ErrUncertain means that the owner of a run died while it was asked: it is not known whether anything was saved. A
// start with a workflow id or a key and an event with an id can be sent again.
var ErrUncertain error = api.Sentinel(api.CodeUncertain)

func (n Node) Join(ctx context.Context, log *slog.Logger) (served.Member, error) {
	keys, err := n.check()
	if err != nil {
		return nil, &api.Error{Code: api.CodeInvalid, Op: "join", Err: err}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", n.Listen)
	if err != nil {
		return nil, err
	}
	node := share.New(share.Config{Address: n.Address, Keys: keys, Version: "program", Program: true, Log: log})
	return daemon.NewMember(node, l, log), nil
}

// check refuses settings with which no other node could reach this one.
func (n Node) check() (*wire.Keys, error) {
	if err := share.CheckAddresses("Node.Listen", n.Listen, "Node.Address", n.Address); err != nil {
		return nil, err
	}
	keys, err := wire.NewKeys(n.Secret)
	if err != nil {
		return nil, fmt.Errorf("Node.Secret: %w", err)
	}
	return keys, nil
}
