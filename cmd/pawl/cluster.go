package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (a *app) clusterCommand() *cobra.Command {
	return noun("cluster", "Look at the nodes that share a database, and drain one",
		"Several pawl servers with the same --database in PostgreSQL and --cluster-listen are the nodes of a cluster. "+
			"These commands work with the table of nodes in the database, also while no node is alive.",
		a.clusterStatusCommand(), a.clusterDrainCommand())
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
	out := clusterStatus{Partitions: len(s.Partitions), Free: []int{}, Nodes: []nodeStatus{}}
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
					return &api.Error{
						Code:    api.CodeNotFound,
						Message: fmt.Sprintf("there is no node %q", args[0]),
						Hint:    "pawl cluster status lists them",
					}
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
