package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/daemon/database"
)

func (a clusterVerbs) clusterStoreCommand() *cobra.Command {
	return noun("store", "Let several PostgreSQL servers keep the partitions of a cluster (experimental)",
		"A store is a database that keeps some of the partitions. The one that --database names is the first; it also "+
			"keeps what belongs to no partition, such as tokens and webhooks.",
		a.storeAddCommand(), a.storeListCommand(), a.storeMoveCommand(), a.storeRemoveCommand())
}

func (a clusterVerbs) storeRemoveCommand() *cobra.Command {
	gone := false
	c := &cobra.Command{
		Use: "remove NAME", Short: "Stop using a database as a store",
		Long: `Works when no partition is there, see pawl cluster store move. The tables stay: drop their schema when no
partition has moved from it for a minute, or add the store again. A database that does not answer has to be
called lost for good, with --gone. If it keeps partitions, it is not removed even so: their runs are nowhere
else, so restore it from a backup.`,
		Example: "  pawl cluster store remove b --database postgres://pawl@db/pawl",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCluster(cmd.Context(), database.Place.Open, func(nodes api.Cluster) error {
				err := nodes.RemoveStore(cmd.Context(), api.StoreRemove{Name: args[0], Gone: gone})
				switch {
				case err != nil:
					return err
				case gone:
					a.say("%s is no longer a store, and kept no partitions", args[0])
				default:
					a.say("%s no longer keeps partitions; its schema can be dropped in a minute", args[0])
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&gone, "gone", false, "the database is lost for good, and need not answer")
	return c
}

func (a clusterVerbs) storeAddCommand() *cobra.Command {
	return &cobra.Command{
		Use: "add NAME ADDRESS", Short: "Let another database keep partitions",
		Long: `Makes the tables there. Nothing moves by that alone, see pawl cluster store move. The address has no
password, since all who read the database see it: whoever runs this and every node gets it from the variable
PAWL_STORE_NAME_PASSWORD (of a store called b: PAWL_STORE_B_PASSWORD), or from ~/.pgpass. The name is one of
lower-case letters, digits and _. With the name of a store that there is, its address is changed.`,
		Example: "  pawl cluster store add b postgres://pawl@db2/pawl --database postgres://pawl@db/pawl",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCluster(cmd.Context(), database.Place.Open, func(nodes api.Cluster) error {
				err := nodes.AddStore(cmd.Context(), api.StoreAdd{Name: args[0], Address: args[1]})
				if err == nil {
					a.say("%s can keep partitions; pawl cluster store move moves one there", args[0])
				}
				return err
			})
		},
	}
}

func (a clusterVerbs) storeListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the databases that keep partitions", Args: cobra.NoArgs,
		Example: "  pawl cluster store list --database postgres://pawl@db/pawl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCluster(cmd.Context(), database.Place.OpenReadOnly, func(nodes api.Cluster) error {
				s, err := nodes.Cluster(cmd.Context())
				if err != nil {
					return err
				}
				if a.structured() {
					return a.print(s.Stores)
				}
				for _, store := range s.Stores {
					a.tellStore(store)
				}
				return nil
			})
		},
	}
}

func (a clusterVerbs) tellStore(s api.ClusterStore) {
	a.say("%-16s %-8s %-40s %s", screen.Clean(s.Name), s.State, screen.Clean(s.Address), numbers(s.Partitions))
	if len(s.Coming) > 0 {
		a.say("  %s on the way there", numbers(s.Coming))
	}
	if s.Problem != "" {
		a.say("  %s", screen.Clean(s.Problem))
	}
	if len(s.Unreached) > 0 {
		a.say("  not reached by %s", screen.Clean(strings.Join(s.Unreached, ", ")))
	}
}

func (a clusterVerbs) storeMoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "move PARTITION NAME", Short: "Move a partition to another database, while its runs go on",
		Long: `The node that has the partition copies it while it works, gives it back, copies what was written
meanwhile, and a node takes it in the other database. Its runs stand still for that last part alone; steps
that the node itself executes start again. What is left in the old database is removed later. To move it back,
name the store it comes from; first is the database that all nodes have. Where no node is alive, the command
moves the partition itself.`,
		Example: "  pawl cluster store move 3 b --database postgres://pawl@db/pawl",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			partition, err := strconv.Atoi(args[0])
			if err != nil || partition < 0 {
				return usage("%q is not a partition: write its number, as pawl cluster store list does", args[0])
			}
			return a.withCluster(cmd.Context(), database.Place.Open, func(nodes api.Cluster) error {
				err := nodes.MoveToStore(cmd.Context(), api.StoreMove{Partition: partition, Store: args[1]})
				if err == nil {
					a.say("partition %d moves to the store %s, see pawl cluster store list", partition, args[1])
				}
				return err
			})
		},
	}
}
