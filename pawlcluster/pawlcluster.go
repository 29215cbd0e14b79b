// Package pawlcluster lets several processes of a Go program share one database in PostgreSQL: each is a node that owns
// a share of the partitions and works with the runs of all of them. When a node dies, the others go on with its runs as
// soon as its leases have ended.
//
//	n, err := pawlcluster.Open(ctx, pawl.Config{Database: "postgres://…", Workflows: all}, pawlcluster.Node{
//		Listen: "10.0.0.5:7296", Secret: secret,
//	})
//	run, err := fulfil.Start(ctx, n, "order-42", order)
//
// Every process needs the same workflows, codec and secret.
package pawlcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/served"
	"github.com/pawl-dev/pawl/internal/service"
)

// Node says how the other nodes reach this one.
type Node struct {
	Listen  string // HOST:PORT where it answers the other nodes
	Address string // HOST:PORT where these reach it. Default: where it listens
	// Secret is what all nodes of the cluster have: 32 random bytes or more. Who has it can do everything.
	Secret []byte
}

// ErrUncertain says that the owner of a run died while it was asked: it is not known whether anything was saved. A
// start with a workflow id or a key and an event with an id can be sent again.
var ErrUncertain error = api.Sentinel(api.CodeUncertain)

// Engine is an engine that shares its database. It is a [pawl.Client] for the runs of all nodes.
type Engine struct {
	pawl.Client
	engine *pawl.Engine
	daemon *daemon.Daemon
	node   *share.Node
	owned  func() []int
}

// Open opens the database and makes this process a node. It takes its share of the partitions soon after. The context
// bounds the opening. The database has to be in PostgreSQL, and the partitions of all nodes together must be as many as
// the nodes or more: ?partitions=64 of the address when the database is made; 8 by default.
//
// Errors: pawl.ErrInvalid; another one if the database belongs to a cluster with another secret, or to one of pawl
// server.
func Open(ctx context.Context, cfg pawl.Config, at Node) (*Engine, error) {
	keys, err := at.check()
	if err != nil {
		return nil, &api.Error{Code: api.CodeInvalid, Op: "join", Err: err}
	}
	log := cfg.Log
	if log == nil {
		log = slog.Default()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.Listen)
	if err != nil {
		return nil, fmt.Errorf("pawl: join: %w", err)
	}
	node := share.New(share.Config{
		Address: at.Address, Keys: keys, Version: "program", Program: true, Log: log,
	})
	opened, err := served.OpenShared(ctx, cfg, node.Configure)
	if err != nil {
		return nil, errors.Join(err, l.Close(), node.Stop())
	}
	engine := opened.Engine.(*pawl.Engine) // package pawl made it: it is of the same module
	d := daemon.Over(daemon.Program{
		Service: opened.Serves, Engine: opened.Partitions, Own: opened.Own, Close: engine.Close,
	}, daemon.Config{Cluster: &daemon.Cluster{Node: node, Listener: l}, Guarded: true, Log: log})
	through := served.Connect(everywhere{d.Routed(), opened.Serves}, cfg)
	e := &Engine{Client: through.(pawl.Client), engine: engine, daemon: d, node: node, owned: opened.Partitions.Owned}
	opened.Relay(e, func() bool { return node.Coordinator(opened.Partitions.Owned()) })
	if err := d.Open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("pawl: join: %w", err), d.Close())
	}
	return e, nil
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

// everywhere is the service of the runs of all nodes.
type everywhere struct {
	*service.Routed
	own served.Engine
}

// StartNamed implements served.Remote.
func (s everywhere) StartNamed(ctx context.Context, workflow string, r api.StartRequest) (api.Started, error) {
	d, err := s.own.Find(ctx, workflow)
	if err != nil {
		return api.Started{}, err
	}
	r.Definition = d
	return s.Start(ctx, r)
}

// Register makes workflows known to this node, so that open runs of theirs go on. Starting a run registers its workflow
// with this node only: the others need it, too.
func (e *Engine) Register(workflows ...pawl.Definition) error { return e.engine.Register(workflows...) }

// ID returns the node's name in the table of nodes: pawl cluster status shows it.
func (e *Engine) ID() string { return e.node.ID() }

// Partitions returns the numbers of the partitions that this node owns at present, in order.
func (e *Engine) Partitions() []int { return e.owned() }

// Close hands the partitions over to the other nodes and stops the engine. Attempts that run are told to stop; the next
// owner of their run makes them again. If the context ends first, the others take over when the leases have ended.
func (e *Engine) Close(ctx context.Context) error {
	return errors.Join(e.daemon.Leave(ctx), e.daemon.Close())
}
