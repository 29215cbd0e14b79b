package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/journal"
)

func (a clusterVerbs) clusterCommand() *cobra.Command {
	return noun("cluster", "Look at the nodes that share a database, drain one, and move partitions",
		"Several pawl servers with the same --database in PostgreSQL and --cluster-listen are the nodes of a cluster. "+
			"With --database these commands work with the table of nodes there, also while no node is alive; with "+
			"--server they ask a node.",
		a.clusterStatusCommand(), a.clusterDrainCommand(), a.clusterMoveCommand(), a.clusterStoreCommand(),
		a.clusterAcceptCommand())
}

// journalOpener opens the journal of a place.
type journalOpener func(p database.Place, ctx context.Context) (journal.Journal, error)

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
	j, err := open(p, ctx)
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
			return a.withCluster(cmd.Context(), database.Place.OpenReadOnly, func(nodes api.Cluster) error {
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
			return a.withCluster(cmd.Context(), database.Place.Open, func(nodes api.Cluster) error {
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
			return a.withCluster(cmd.Context(), database.Place.Open, func(nodes api.Cluster) error {
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

// acceptance is the JSON output of pawl cluster accept.
type acceptance struct {
	Database   string   `json:"database"`
	Accepted   bool     `json:"accepted"`
	Generation uint64   `json:"generation,omitempty"`
	Lost       []string `json:"lost"` // batches by partition, as far as this machine has seen them
	Runs       []string `json:"runs"` // runs with logs on this machine that are not in the database
}

func (a clusterVerbs) clusterAcceptCommand() *cobra.Command {
	dry := false
	cmd := &cobra.Command{
		Use: "accept", Short: "Go on with a database that went back: another primary, or a restored copy",
		Long: `Nodes refuse a database that lacks something which they have seen of it. If it is the one to go on with,
stop all nodes and run this, on a machine that had a node: it shows what is given up, as far as it was seen there, and
makes what the database has the truth from now on, as a new generation. It is in the audit log. Other copies are
refused from then on. Look first with --dry-run. It works for a database in a file, too.`,
		Example: "  pawl cluster accept --dry-run --database postgres://pawl@db/pawl\n" +
			"  pawl cluster accept --database postgres://pawl@db/pawl",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.where()
			if err != nil {
				return err
			}
			if p.Memory {
				return usage("a database in memory never goes back: name one with --database")
			}
			j, err := p.OpenToAccept(cmd.Context())
			if err != nil {
				return err
			}
			return errors.Join(a.accept(cmd.Context(), p, j, dry), j.Close())
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would be given up, and accept nothing")
	return cmd
}

func (a clusterVerbs) accept(ctx context.Context, p database.Place, j journal.Journal, dry bool) error {
	if err := refuseAlive(ctx, j); err != nil {
		return err
	}
	given, err := p.Gives(ctx, j)
	if err != nil {
		return err
	}
	out := acceptance{
		Database: p.Name(), Accepted: !dry, Lost: append([]string{}, given.Batches...),
		Runs: append([]string{}, given.Runs...),
	}
	if !dry {
		g, err := p.Accept(ctx, j)
		if err == nil {
			err = access.Note(ctx, j, api.Audited{
				Actor: "local", Method: "ACCEPT", Path: fmt.Sprintf("/cluster/generation/%d", g.Number),
				Status: 200, From: a.who(),
			})
		}
		if err != nil {
			return err
		}
		out.Generation = g.Number
	}
	if a.structured() {
		return a.print(out)
	}
	if len(out.Lost) == 0 {
		a.say("nothing that this machine has seen of %s is missing there", screen.Clean(out.Database))
	}
	for _, line := range out.Lost {
		a.say("lost: %s", line)
	}
	for _, run := range out.Runs {
		a.say("not there: run %s, whose logs are on this machine", run)
	}
	if dry {
		a.say("nothing was accepted: leave --dry-run out for that")
		return nil
	}
	a.say("accepted as generation %d: nodes go on with what it has", out.Generation)
	return nil
}

// refuseAlive refuses a database that nodes work with.
func refuseAlive(ctx context.Context, j journal.Journal) error {
	shared, ok := j.(cluster.Shareable)
	if !ok {
		return nil // a file has one process, which holds it
	}
	nodes, lease := shared.Nodes()
	var alive []string
	for from := time.Now(); time.Since(from) <= lease+time.Second; {
		s, err := nodes.Snapshot(ctx)
		if err != nil {
			return err
		}
		alive = nil
		for _, n := range s.Nodes {
			if n.Alive {
				alive = append(alive, screen.Clean(n.ID))
			}
		}
		if len(alive) == 0 {
			return nil
		}
		select { // the last sign of life of a node that was stopped counts for a while
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lease / 10):
		}
	}
	return fmt.Errorf("stop all nodes first: %s work with this database", strings.Join(alive, ", "))
}
