// Package cluster makes several processes, the nodes, share the partitions of one journal. Each node says in a table of
// the database that it is alive, reads the same table as all others, and decides with the same rule which node should
// own which partition. It gives back what is another one's, and takes what is its own and free. Nobody leads.
//
// The rule only proposes: whether a node may write is decided by the leases of the journal alone.
package cluster
