package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (a clusterVerbs) clusterCommand() *cobra.Command {
	return noun("cluster", "Look at the nodes that share a database, drain one, and move partitions",
		"Several pawl servers with the same --database in PostgreSQL and --cluster-listen are the nodes of a cluster. "+
			"With --database these commands work with the table of nodes there, also while no node is alive; with "+
			"--server they ask a node.",
		a.clusterStatusCommand(), a.clusterDrainCommand(), a.clusterMoveCommand(), a.clusterStoreCommand())
}

// journalOpener opens the journal of an address.
type journalOpener func(ctx context.Context, address string) (journal.Journal, error)

// withCluster calls fn with the nodes of a server's cluster, or of the database. The database is asked itself, also
// where a node has it.
func (a clusterVerbs) withCluster(ctx context.Context, open journalOpener, fn func(nodes api.Cluster) error) error {
	if a.server != "" {
		m, err := a.start(ctx, false)
		if err != nil {
			return err
		}
		return errors.Join(fn(m.remote), m.close())
	}
	p, err := a.where()
	if err != nil {
		return err
	}
	if p.Server == "" {
		return usage("pawl cluster works with the database of the nodes: write --database postgres://…, or with " +
			"one of them: --server URL")
	}
	j, err := open(ctx, p.Server)
	if err != nil {
		return err
	}
	nodes, err := nodesOf(j)
	if err == nil {
		err = fn(share.Operator{Storage: nodes})
	}
	return errors.Join(err, j.Close())
}

func (a clusterVerbs) clusterStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "List the nodes, and which partitions each of them has", Args: cobra.NoArgs,
		Example: "  pawl cluster status --database postgres://pawl@db/pawl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCluster(cmd.Context(), journal.OpenReadOnly, func(nodes api.Cluster) error {
				s, err := nodes.Cluster(cmd.Context())
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(s)
				}
				for _, n := range s.Nodes {
					a.say("%-24s %-8s %-22s %s", screen.Clean(n.ID), n.State, screen.Clean(n.Address),
						numbers(n.Partitions))
				}
				switch {
				case len(s.Nodes) == 0:
					a.say("No node is there: start one with pawl server --cluster-listen.")
				case len(s.Free) > 0:
					a.say("nobody has %s", numbers(s.Free))
				}
				for _, store := range s.Stores {
					if store.Problem != "" {
						a.say("the store %s does not answer, so nobody knows who has %s: see pawl cluster store list",
							screen.Clean(store.Name), numbers(store.Partitions))
					}
				}
				for _, p := range slices.Sorted(maps.Keys(s.Pinned)) {
					a.say("partition %d was moved to %s, until pawl cluster move %d --undo", p,
						screen.Clean(s.Pinned[p]), p)
				}
				return nil
			})
		},
	}
}

// numbers writes partitions for people.
func numbers(all []int) string {
	text := make([]string, len(all))
	for i, n := range all {
		text[i] = fmt.Sprint(n)
	}
	switch len(all) {
	case 0:
		return "no partition"
	case 1:
		return "partition " + text[0]
	default:
		return "partitions " + strings.Join(text, " ")
	}
}

func (a clusterVerbs) clusterDrainCommand() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Make a node give its partitions to the others", Args: cobra.ExactArgs(1),
		Long: `The node gives its partitions back, and takes none any more, until it is started again or --undo takes
that back. It goes on to answer requests, by asking the others. Steps that it executes are stopped, and
start again where their runs are then. A server that gets SIGTERM does the same by itself.`,
		Example: "  pawl cluster drain db1-k3vq7x2m --database postgres://pawl@db/pawl",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCluster(cmd.Context(), journal.Open, func(nodes api.Cluster) error {
				err := nodes.Drain(cmd.Context(), api.NodeDrain{Node: args[0], Undo: undo})
				switch {
				case err != nil:
					return err
				case undo:
					a.say("%s takes its share again", args[0])
				default:
					a.say("%s gives its partitions back", args[0])
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let the node take its share again")
	return cmd
}

func (a clusterVerbs) clusterMoveCommand() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "move PARTITION NODE | move PARTITION --undo", Short: "Make a node take a partition, and keep it",
		Long: `The node that has the partition gives it back, and NODE takes it and keeps it, also above its share. The
other partitions are shared out as evenly as that allows. While NODE is drained or dead, another one has the
partition. This ends with --undo, or when NODE is stopped: a node that is started again is another node.
Steps that the old owner executes are stopped, and start again with the new one.`,
		Example: "  pawl cluster move 3 db1-k3vq7x2m --database postgres://pawl@db/pawl\n" +
			"  pawl cluster move 3 --undo --database postgres://pawl@db/pawl",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			partition, err := strconv.Atoi(args[0])
			switch {
			case err != nil || partition < 0:
				return usage("%q is not a partition: write its number, as pawl cluster status does", args[0])
			case undo == (len(args) == 2):
				return usage("name the node that should have partition %d, or write --undo", partition)
			}
			r := api.PartitionMove{Partition: partition, Undo: undo}
			if !undo {
				r.Node = args[1]
			}
			return a.withCluster(cmd.Context(), journal.Open, func(nodes api.Cluster) error {
				err := nodes.Move(cmd.Context(), r)
				switch {
				case err != nil:
					return err
				case undo:
					a.say("partition %d can be with any node again", partition)
				default:
					a.say("partition %d moves to %s", partition, r.Node)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let the partition be with any node again")
	return cmd
}
