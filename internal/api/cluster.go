package api

import "context"

// Cluster is the nodes that share a database.
type Cluster interface {
	// Cluster returns the nodes, and who has which partitions.
	Cluster(ctx context.Context) (ClusterStatus, error)
	// Drain makes a node give its partitions to the others, or lets it take its share again. Errors: CodeNotFound.
	Drain(ctx context.Context, r NodeDrain) error
	// Move makes a node take a partition and keep it, or lets the partition be with any node again. Errors: CodeInvalid
	// (there is no such partition), CodeNotFound, CodeConflict (the node is dead or drained).
	Move(ctx context.Context, r PartitionMove) error
}

// ClusterStatus is the nodes as they stand.
type ClusterStatus struct {
	Nodes      []ClusterNode `json:"nodes"`
	Partitions int           `json:"partitions" doc:"How many there are."`
	Free       []int         `json:"free" doc:"The partitions that nobody has at present."`
	// Pinned has the node of each partition that was moved by hand. It may be draining or dead, and not have it now.
	Pinned map[int]string `json:"pinned,omitempty" doc:"The node of each partition that was moved by hand."`
}

// ClusterNode is a node, or another process that has partitions.
type ClusterNode struct {
	ID         string `json:"id"`
	State      string `json:"state" enum:"alive,draining,dead,no node" doc:"no node: another process has partitions."`
	Address    string `json:"address,omitempty"`
	Version    string `json:"version,omitempty"`
	Since      Time   `json:"since,omitzero"`
	Partitions []int  `json:"partitions"`
}

// NodeDrain says which node gives its partitions back.
type NodeDrain struct {
	Node string `json:"node"`
	Undo bool   `json:"undo,omitempty" doc:"Let the node take its share again."`
}

// PartitionMove says where a partition is to be.
type PartitionMove struct {
	Partition int    `json:"partition" minimum:"0" doc:"Its number, counted from 0."`
	Node      string `json:"node,omitempty" doc:"The node that takes it, and keeps it."`
	Undo      bool   `json:"undo,omitempty" doc:"Let it be with any node again, instead of a node."`
}
