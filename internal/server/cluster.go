package server

import (
	"context"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
)

var errNoCluster = &api.Error{
	Code: api.CodeReadOnly, Message: "this server is not a node of a cluster",
	Hint: "nodes are started with --cluster-listen; see the guide to clusters",
}

// mayRun refuses requests about the nodes and databases of all namespaces to callers that may work only in one of them.
// A caller who adds a store also makes the server connect to a host of his choice, with a password.
func (s *Server) mayRun(ctx context.Context) error {
	switch c := callerOf(ctx); {
	case s.cfg.Cluster == nil:
		return errNoCluster
	case c != nil && c.walled:
		return &api.Error{
			Code: api.CodeForbidden,
			Message: fmt.Sprintf("the token %q is for one namespace: nodes and stores belong to all namespaces",
				c.token.Name),
			Hint: "use an admin's token for all namespaces",
		}
	}
	return nil
}

// command adds a route that changes something about the nodes.
func command[In any](s *Server, a huma.API, path, id, title string, do func(context.Context, In) error) {
	op := under(api.RoleAdmin, "POST", "/cluster/"+path, id, "cluster", title)
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body In }) (*struct{}, error) {
		if err := s.mayRun(ctx); err != nil {
			return done(err)
		}
		return done(do(ctx, in.Body))
	})
}

// clusterRoutes adds the requests about the nodes that share the database, and those to them.
func (s *Server) clusterRoutes(a huma.API) {
	op := under(api.RoleRead, "GET", "/cluster", "getCluster", "cluster",
		"List the nodes, and who has which partitions")
	huma.Register(a, op, func(ctx context.Context, _ *struct{}) (*answered[api.ClusterStatus], error) {
		if s.cfg.Cluster == nil {
			return body(api.ClusterStatus{}, errNoCluster)
		}
		return body(s.cfg.Cluster.Cluster(ctx))
	})
	nodes := s.cfg.Cluster
	command(s, a, "drain", "drainNode", "Make a node give its partitions to the others",
		func(ctx context.Context, r api.NodeDrain) error { return nodes.Drain(ctx, r) })
	command(s, a, "move", "movePartition", "Make a node take a partition, and keep it",
		func(ctx context.Context, r api.PartitionMove) error { return nodes.Move(ctx, r) })
	command(s, a, "stores", "addStore", "Let another database keep partitions",
		func(ctx context.Context, r api.StoreAdd) error { return nodes.AddStore(ctx, r) })
	command(s, a, "stores/remove", "removeStore", "Stop using a database as a store",
		func(ctx context.Context, r api.StoreRemove) error { return nodes.RemoveStore(ctx, r) })
	command(s, a, "stores/move", "moveToStore", "Move a partition to another database",
		func(ctx context.Context, r api.StoreMove) error { return nodes.MoveToStore(ctx, r) })
}
