package api

import "context"

// Cluster is the nodes that share a database.
type Cluster interface {
	// Cluster returns the nodes, and who has which partitions.
	Cluster(ctx context.Context) (ClusterStatus, error)
	// Drain makes a node give its partitions to the others, or allows it to take its share again. Errors: CodeNotFound.
	Drain(ctx context.Context, r NodeDrain) error
	// Move makes a node take a partition and keep it, or allows any node to have the partition again. Errors:
	// CodeInvalid (there is no such partition), CodeNotFound, CodeConflict (the node is dead or drained).
	Move(ctx context.Context, r PartitionMove) error
	// AddStore makes a database a store of partitions, or changes the address of one. Errors: CodeConflict.
	AddStore(ctx context.Context, r StoreAdd) error
	// RemoveStore removes a database from the stores of partitions. Errors: CodeNotFound, CodeConflict (it keeps some,
	// or does not answer).
	RemoveStore(ctx context.Context, r StoreRemove) error
	// MoveToStore has a partition moved to another database, while its runs go on. Naming the store that keeps it
	// cancels a move. Errors: CodeInvalid, CodeNotFound, CodeConflict (a node does not reach it).
	MoveToStore(ctx context.Context, r StoreMove) error
}

// ClusterStatus is the present state of the nodes.
type ClusterStatus struct {
	Nodes      []ClusterNode `json:"nodes"`
	Partitions int           `json:"partitions" doc:"Number of partitions."`
	Free       []int         `json:"free" doc:"The partitions that nobody has at present."`
	// Pinned has the node of each partition that was moved by hand. It may be draining or dead, and not have it now.
	Pinned map[int]string `json:"pinned,omitempty" doc:"The node of each partition that was moved by hand."`
	Stores []ClusterStore `json:"stores" doc:"The databases that keep the partitions, the first one first."`
}

// ClusterStore is a database that keeps partitions.
type ClusterStore struct {
	Name       string `json:"name"`
	State      string `json:"state" enum:"reached,silent" doc:"silent: it does not answer whom you asked."`
	Problem    string `json:"problem,omitempty" doc:"Reason why it does not answer."`
	Address    string `json:"address,omitempty" doc:"Address without a password. The first store has none here."`
	Partitions []int  `json:"partitions" doc:"Partitions that it keeps. A silent store does not tell their owners."`
	Coming     []int  `json:"coming" doc:"Partitions that are being moved to it."`
	// Unreached are nodes that are alive and have not reached it.
	Unreached []string `json:"unreached" doc:"The nodes that are alive and have not reached it."`
}

// StoreAdd is a database that should keep partitions.
type StoreAdd struct {
	Name    string `json:"name"`
	Address string `json:"address" doc:"Address without a password: nodes have that in environment or ~/.pgpass."`
}

// StoreRemove names a database that stops being a store.
type StoreRemove struct {
	Name string `json:"name"`
	Gone bool   `json:"gone,omitempty" doc:"Set if the store is lost for good, and need not answer."`
}

// StoreMove specifies which store should keep a partition.
type StoreMove struct {
	Partition int    `json:"partition" minimum:"0" doc:"Its number, counted from 0."`
	Store     string `json:"store" doc:"The name of the store; first is the database that all nodes have."`
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

// NodeDrain specifies which node gives its partitions back.
type NodeDrain struct {
	Node string `json:"node"`
	Undo bool   `json:"undo,omitempty" doc:"Let the node take its share again."`
}

// PartitionMove specifies where a partition should be.
type PartitionMove struct {
	Partition int    `json:"partition" minimum:"0" doc:"Its number, counted from 0."`
	Node      string `json:"node,omitempty" doc:"The node that takes it, and keeps it."`
	Undo      bool   `json:"undo,omitempty" doc:"Let it be with any node again, instead of a node."`
}
