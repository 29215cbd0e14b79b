package postgres

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/cluster"
)

// The statements about nodes. Like leases, they use only the database's clock, so the clocks of the nodes do not
// matter. A node that has been gone for a long time is forgotten.
const (
	beatText = "INSERT INTO {schema}.nodes AS n (id, address, version, secret, since, beat, term, leaving," +
		" reaches) VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp(), $5, false, $6)" +
		" ON CONFLICT (id) DO UPDATE SET" +
		" address = excluded.address, version = excluded.version, secret = excluded.secret, beat = excluded.beat," +
		" term = excluded.term, reaches = excluded.reaches"
	nodesText = "SELECT id, address, version, secret, (extract(epoch FROM since) * 1000000)::bigint," +
		" beat > clock_timestamp() - term * interval '1 microsecond'" +
		" AND beat <= clock_timestamp() + term * interval '1 microsecond', leaving, reaches" +
		" FROM {schema}.nodes ORDER BY id"
	ownersText = "SELECT p.partition, p.owner, p.until > clock_timestamp()" +
		" AND p.until <= clock_timestamp() + 2 * p.term * interval '1 microsecond', coalesce(pins.node, '')," +
		" p.last > 0 AND p.until - p.term * interval '1 microsecond' <" +
		" clock_timestamp() - $1 * interval '1 microsecond'" +
		" FROM {schema}.partitions p LEFT JOIN {schema}.pins pins ON pins.partition = p.partition"
	askText = "UPDATE {schema}.nodes SET leaving = $2 WHERE id = $1 RETURNING 1"
	pinText = "INSERT INTO {schema}.pins AS p (partition, node) SELECT $1::int, id FROM {schema}.nodes" +
		" WHERE id = $2::text ON CONFLICT (partition) DO UPDATE SET node = excluded.node RETURNING 1"
	unpinText  = "DELETE FROM {schema}.pins WHERE partition = $1::int RETURNING 1"
	removeText = "DELETE FROM {schema}.nodes WHERE id = $1 OR beat < clock_timestamp() - interval '1 hour'"
)

var (
	_ cluster.Storage   = (*stores)(nil)
	_ cluster.Stores    = (*stores)(nil)
	_ cluster.Shareable = (*stores)(nil)
)

func (s *stores) Stores() cluster.Stores { return s }

// Beat implements cluster.Storage. It remembers the stores that the last Snapshot has reached.
func (s *stores) Beat(ctx context.Context, n cluster.Node) error {
	return s.change(ctx, "beat", beatText, nil, stored(n.ID), stored(n.Address), stored(n.Version), n.Secret,
		s.lease.Microseconds(), *s.reached.Load())
}

func (s *storage) Ask(ctx context.Context, node string, leave bool) (found bool, err error) {
	err = s.change(ctx, "drain", askText, &found, stored(node), leave)
	return found, err
}

func (s *storage) Pin(ctx context.Context, partition int, node string) (found bool, err error) {
	err = s.change(ctx, "move", pinText, &found, partition, stored(node))
	return found, err
}

func (s *storage) Unpin(ctx context.Context, partition int) (found bool, err error) {
	err = s.change(ctx, "move", unpinText, &found, partition)
	return found, err
}

func (s *storage) Remove(ctx context.Context, node string) error {
	return s.change(ctx, "leave", removeText, nil, stored(node))
}

// change runs a statement about nodes, which may be repeated.
func (s *storage) change(ctx context.Context, op, text string, found *bool, args ...any) error {
	if err := s.usable(true); err != nil {
		return err
	}
	return s.wrap(op, s.again(ctx, func(ctx context.Context) error {
		return s.query(ctx, s.in(text), args, func(pgx.Rows) error {
			if found != nil {
				*found = true
			}
			return nil
		})
	}))
}

// ownerRow is a store's data of a partition.
type ownerRow struct {
	partition int
	cluster.Partition
	left bool // it has rows of a partition that was moved away, for longer than anybody uses an old map
}

// Snapshot implements cluster.Storage. Stores other than the first one get little time: while one does not answer, the
// node has to give its signs of life.
func (s *stores) Snapshot(ctx context.Context) (out cluster.Snapshot, err error) {
	if err := s.readMap(ctx); err != nil {
		return out, err
	}
	l := s.layout.Load()
	if out.Nodes, err = s.nodes(ctx); err != nil {
		return out, err
	}
	rows, errs := make([][]ownerRow, len(l.all)), make([]error, len(l.all))
	var all sync.WaitGroup
	for i, at := range l.all {
		all.Go(func() {
			caller, ctx := ctx, ctx
			if i > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, s.short())
				defer cancel()
			}
			if errs[i] = at.begin(ctx); errs[i] == nil {
				rows[i], errs[i] = at.owners(ctx, 3*s.lease)
			}
			errs[i] = silent(caller, ctx, s.short(), errs[i])
		})
	}
	all.Wait()
	if errs[0] != nil {
		return out, errs[0]
	}
	var reached []string
	for i, at := range l.all {
		out.Stores = append(out.Stores, cluster.Store{Name: l.name(i), Address: at.address, Err: errs[i]})
		if i > 0 && errs[i] == nil {
			reached = append(reached, at.id)
		}
	}
	names := strings.Join(reached, ",")
	s.reached.Store(&names)
	out.Partitions = l.partitions(rows, errs)
	return out, nil
}

// partitions combines the data of the stores. The store that keeps a partition knows its owner, the first one knows
// what was requested for it.
func (l *layout) partitions(rows [][]ownerRow, errs []error) []cluster.Partition {
	out := make([]cluster.Partition, len(l.places))
	for p, at := range l.places {
		out[p].Store, out[p].Target, out[p].Silent = l.name(at), l.name(l.targets[p]), errs[at] != nil
	}
	for i := range rows {
		for _, row := range rows[i] {
			if row.partition >= len(out) {
				continue
			}
			p := &out[row.partition]
			if i == 0 {
				p.Pin = row.Pin
			}
			switch at := l.places[row.partition]; {
			case i == at && !isAway(row.Owner): // else its move is over but for the map
				p.Owner, p.Alive = row.Owner, row.Alive
			case i != at && i != l.targets[row.partition] && row.left:
				p.Leftover = l.name(i)
			}
		}
	}
	return out
}

// name returns the name of a store as people know it.
func (l *layout) name(i int) string { return cmp.Or(l.all[i].id, nameOfFirst) }

// nodes reads the table of nodes.
func (s *storage) nodes(ctx context.Context) (nodes []cluster.Node, err error) {
	err = s.read(ctx, "nodes", s.in(nodesText), nil, func() { nodes = nil }, func(r pgx.Rows) error {
		var n cluster.Node
		err := r.Scan(&n.ID, &n.Address, &n.Version, &n.Secret, &n.Since, &n.Alive, &n.Leaving, &n.Reaches)
		n.ID, n.Address, n.Version = original(n.ID), original(n.Address), original(n.Version)
		nodes = append(nodes, n)
		return err
	})
	return nodes, err
}

// owners reads who owns the partitions.
func (s *storage) owners(ctx context.Context, leftAfter time.Duration) (rows []ownerRow, err error) {
	err = s.read(ctx, "owners", s.in(ownersText), []any{leftAfter.Microseconds()}, func() { rows = nil },
		func(r pgx.Rows) error {
			var row ownerRow
			err := r.Scan(&row.partition, &row.Owner, &row.Alive, &row.Pin, &row.left)
			row.Owner, _, _ = strings.Cut(original(row.Owner), " on ") // Acquire adds the host
			row.Pin = original(row.Pin)
			rows = append(rows, row)
			return err
		})
	return rows, err
}

func (s *stores) Nodes() (nodes cluster.Storage, lease time.Duration) { return s, s.lease }
