package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
)

var errNoCluster = &api.Error{
	Code: api.CodeReadOnly, Message: "this server is no node of a cluster",
	Hint: "nodes are started with --cluster-listen; see the guide to clusters",
}

// clusterRoutes adds what is said of the nodes that share the database, and to them.
func (s *Server) clusterRoutes(a huma.API) {
	op := under("GET", "/cluster", "getCluster", "cluster", "List the nodes, and who has which partitions")
	huma.Register(a, op, func(ctx context.Context, _ *struct{}) (*answered[api.ClusterStatus], error) {
		if s.cfg.Cluster == nil {
			return body(api.ClusterStatus{}, errNoCluster)
		}
		return body(s.cfg.Cluster.Cluster(ctx))
	})
	op = under("POST", "/cluster/drain", "drainNode", "cluster", "Make a node give its partitions to the others")
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.NodeDrain }) (*struct{}, error) {
		if s.cfg.Cluster == nil {
			return done(errNoCluster)
		}
		return done(s.cfg.Cluster.Drain(ctx, in.Body))
	})
	op = under("POST", "/cluster/move", "movePartition", "cluster", "Make a node take a partition, and keep it")
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.PartitionMove }) (*struct{}, error) {
		if s.cfg.Cluster == nil {
			return done(errNoCluster)
		}
		return done(s.cfg.Cluster.Move(ctx, in.Body))
	})
	op = under("POST", "/cluster/stores", "addStore", "cluster", "Let another database keep partitions")
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.StoreAdd }) (*struct{}, error) {
		if s.cfg.Cluster == nil {
			return done(errNoCluster)
		}
		return done(s.cfg.Cluster.AddStore(ctx, in.Body))
	})
	op = under("POST", "/cluster/stores/remove", "removeStore", "cluster", "Let a database keep partitions no more")
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.StoreRemove }) (*struct{}, error) {
		if s.cfg.Cluster == nil {
			return done(errNoCluster)
		}
		return done(s.cfg.Cluster.RemoveStore(ctx, in.Body))
	})
	op = under("POST", "/cluster/stores/move", "moveToStore", "cluster", "Move a partition to another database")
	huma.Register(a, op, func(ctx context.Context, in *struct{ Body api.StoreMove }) (*struct{}, error) {
		if s.cfg.Cluster == nil {
			return done(errNoCluster)
		}
		return done(s.cfg.Cluster.MoveToStore(ctx, in.Body))
	})
}
