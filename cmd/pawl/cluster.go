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
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (a *app) clusterCommand() *cobra.Command {
	return noun("cluster", "Look at the nodes that share a database, drain one, and move partitions",
		"Several pawl servers with the same --database in PostgreSQL and --cluster-listen are the nodes of a cluster. "+
			"These commands work with the table of nodes in the database, also while no node is alive.",
		a.clusterStatusCommand(), a.clusterDrainCommand(), a.clusterMoveCommand())
}

// journalOpener opens the journal of an address.
type journalOpener func(ctx context.Context, address string) (journal.Journal, error)

// withNodes calls fn with the table of nodes.
func (a *app) withNodes(ctx context.Context, open journalOpener, fn func(nodes cluster.Storage) error) error {
	p, err := a.where()
	if err != nil {
		return err
	}
	if p.server == "" {
		return usage("pawl cluster works with the database of the nodes: write --database postgres://…")
	}
	j, err := open(ctx, p.server)
	if err != nil {
		return err
	}
	nodes, err := nodesOf(j)
	if err == nil {
		err = fn(nodes)
	}
	return errors.Join(err, j.Close())
}

// clusterStatus is what pawl cluster status prints.
type clusterStatus struct {
	Nodes      []nodeStatus `json:"nodes"`
	Partitions int          `json:"partitions"`
	Free       []int        `json:"free"` // partitions that nobody has at present
	// Pinned has the node of each partition that was moved by hand. It may be draining or dead, and not have it now.
	Pinned map[int]string `json:"pinned,omitempty"`
}

type nodeStatus struct {
	ID         string   `json:"id"`
	State      string   `json:"state"` // alive, draining, dead; no node: another process has partitions
	Address    string   `json:"address,omitempty"`
	Version    string   `json:"version,omitempty"`
	Since      api.Time `json:"since,omitzero"`
	Partitions []int    `json:"partitions"`
}

// standOf sorts the partitions by their owners. Owners that are no nodes come last.
func standOf(s cluster.Stand) clusterStatus {
	out := clusterStatus{
		Partitions: len(s.Partitions), Free: []int{}, Nodes: []nodeStatus{}, Pinned: map[int]string{},
	}
	places := map[string]int{}
	for _, n := range s.Nodes {
		state := "alive"
		switch {
		case !n.Alive:
			state = "dead"
		case n.Leaving:
			state = "draining"
		}
		places[n.ID] = len(out.Nodes)
		out.Nodes = append(out.Nodes, nodeStatus{
			ID: n.ID, State: state, Address: n.Address, Version: n.Version, Since: api.Time(n.Since),
			Partitions: []int{},
		})
	}
	for i, p := range s.Partitions {
		if p.Pin != "" {
			out.Pinned[i] = p.Pin
		}
		if p.Owner == "" || !p.Alive {
			out.Free = append(out.Free, i)
			continue
		}
		at, known := places[p.Owner]
		if !known {
			at = len(out.Nodes)
			places[p.Owner] = at
			out.Nodes = append(out.Nodes, nodeStatus{ID: p.Owner, State: "no node"})
		}
		out.Nodes[at].Partitions = append(out.Nodes[at].Partitions, i)
	}
	return out
}

func (a *app) clusterStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "List the nodes, and which partitions each of them has", Args: cobra.NoArgs,
		Example: "  pawl cluster status --database postgres://pawl@db/pawl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withNodes(cmd.Context(), journal.OpenReadOnly, func(nodes cluster.Storage) error {
				stand, err := nodes.Stand(cmd.Context())
				if err != nil {
					return err
				}
				s := standOf(stand)
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

func (a *app) clusterDrainCommand() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Make a node give its partitions to the others", Args: cobra.ExactArgs(1),
		Long: `The node gives its partitions back, and takes none any more, until it is started again or --undo takes
that back. It goes on to answer requests, by asking the others. Steps that it executes are stopped, and
start again where their runs are then. A server that gets SIGTERM does the same by itself.`,
		Example: "  pawl cluster drain db1-k3vq7x2m --database postgres://pawl@db/pawl",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withNodes(cmd.Context(), journal.Open, func(nodes cluster.Storage) error {
				found, err := nodes.Ask(cmd.Context(), args[0], !undo)
				switch {
				case err != nil:
					return err
				case !found:
					return noNode(args[0])
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

func noNode(id string) error {
	return &api.Error{
		Code: api.CodeNotFound, Message: fmt.Sprintf("there is no node %q", id), Hint: "pawl cluster status lists them",
	}
}

func (a *app) clusterMoveCommand() *cobra.Command {
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
				return usage("%q is no partition: write its number, as pawl cluster status does", args[0])
			case undo == (len(args) == 2):
				return usage("name the node that should have partition %d, or write --undo", partition)
			}
			return a.withNodes(cmd.Context(), journal.Open, func(nodes cluster.Storage) error {
				if undo {
					return a.unpin(cmd.Context(), nodes, partition)
				}
				return a.pin(cmd.Context(), nodes, partition, args[1])
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let the partition be with any node again")
	return cmd
}

// pin makes a node take a partition. It refuses where the partition would not move.
func (a *app) pin(ctx context.Context, nodes cluster.Storage, partition int, node string) error {
	s, err := nodes.Stand(ctx)
	if err != nil {
		return err
	}
	if partition >= len(s.Partitions) {
		return usage("there is no partition %d: the database has %d, counted from 0", partition, len(s.Partitions))
	}
	i := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.ID == node })
	switch {
	case i < 0:
		return noNode(node)
	case !s.Nodes[i].Alive:
		return &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the node %q is dead", node),
			Hint: "pawl cluster status lists the nodes that are alive",
		}
	case s.Nodes[i].Leaving:
		return &api.Error{
			Code: api.CodeConflict, Message: fmt.Sprintf("the node %q gives its partitions back", node),
			Hint: "pawl cluster drain NODE --undo makes it take some again",
		}
	}
	found, err := nodes.Pin(ctx, partition, node)
	switch {
	case err != nil:
		return err
	case !found:
		return noNode(node)
	}
	a.say("partition %d moves to %s", partition, node)
	return nil
}

// unpin lets a partition be with any node.
func (a *app) unpin(ctx context.Context, nodes cluster.Storage, partition int) error {
	found, err := nodes.Unpin(ctx, partition)
	switch {
	case err != nil:
		return err
	case !found:
		return &api.Error{
			Code: api.CodeNotFound, Message: fmt.Sprintf("partition %d was not moved to a node", partition),
			Hint: "pawl cluster status lists those that were",
		}
	}
	a.say("partition %d can be with any node again", partition)
	return nil
}
