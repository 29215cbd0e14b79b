package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/cluster"
)

// The statements about nodes. Like leases, they know the database's clock alone, so it does not matter what the clocks
// of the nodes show. A node that is gone for long is forgotten.
const (
	beatText = "INSERT INTO {schema}.nodes AS n (id, address, version, secret, since, beat, term, leaving)" +
		" VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp(), $5, false) ON CONFLICT (id) DO UPDATE SET" +
		" address = excluded.address, version = excluded.version, secret = excluded.secret, beat = excluded.beat," +
		" term = excluded.term"
	nodesText = "SELECT id, address, version, secret, (extract(epoch FROM since) * 1000000)::bigint," +
		" beat > clock_timestamp() - term * interval '1 microsecond'" +
		" AND beat <= clock_timestamp() + term * interval '1 microsecond', leaving FROM {schema}.nodes ORDER BY id"
	ownersText = "SELECT p.partition, p.owner, p.until > clock_timestamp()" +
		" AND p.until <= clock_timestamp() + 2 * p.term * interval '1 microsecond', coalesce(pins.node, '')" +
		" FROM {schema}.partitions p LEFT JOIN {schema}.pins pins ON pins.partition = p.partition"
	askText = "UPDATE {schema}.nodes SET leaving = $2 WHERE id = $1 RETURNING 1"
	pinText = "INSERT INTO {schema}.pins AS p (partition, node) SELECT $1::int, id FROM {schema}.nodes" +
		" WHERE id = $2::text ON CONFLICT (partition) DO UPDATE SET node = excluded.node RETURNING 1"
	unpinText  = "DELETE FROM {schema}.pins WHERE partition = $1::int RETURNING 1"
	removeText = "DELETE FROM {schema}.nodes WHERE id = $1 OR beat < clock_timestamp() - interval '1 hour'"
)

var (
	_ cluster.Storage   = (*storage)(nil)
	_ cluster.Shareable = (*storage)(nil)
)

// Beat implements cluster.Storage.
func (s *storage) Beat(ctx context.Context, n cluster.Node) error {
	return s.change(ctx, "beat", beatText, nil, stored(n.ID), stored(n.Address), stored(n.Version), n.Secret,
		s.lease.Microseconds())
}

// Ask implements cluster.Storage.
func (s *storage) Ask(ctx context.Context, node string, leave bool) (found bool, err error) {
	err = s.change(ctx, "drain", askText, &found, stored(node), leave)
	return found, err
}

// Pin implements cluster.Storage.
func (s *storage) Pin(ctx context.Context, partition int, node string) (found bool, err error) {
	err = s.change(ctx, "move", pinText, &found, partition, stored(node))
	return found, err
}

// Unpin implements cluster.Storage.
func (s *storage) Unpin(ctx context.Context, partition int) (found bool, err error) {
	err = s.change(ctx, "move", unpinText, &found, partition)
	return found, err
}

// Remove implements cluster.Storage.
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

// Stand implements cluster.Storage.
func (s *storage) Stand(ctx context.Context) (cluster.Stand, error) {
	var out cluster.Stand
	err := s.read(ctx, "nodes", s.in(nodesText), nil, func() { out.Nodes = nil }, func(r pgx.Rows) error {
		var n cluster.Node
		err := r.Scan(&n.ID, &n.Address, &n.Version, &n.Secret, &n.Since, &n.Alive, &n.Leaving)
		n.ID, n.Address, n.Version = original(n.ID), original(n.Address), original(n.Version)
		out.Nodes = append(out.Nodes, n)
		return err
	})
	if err != nil {
		return out, err
	}
	begin := func() { out.Partitions = make([]cluster.Partition, s.count) }
	err = s.read(ctx, "owners", s.in(ownersText), nil, begin, func(r pgx.Rows) error {
		var number int
		var p cluster.Partition
		if err := r.Scan(&number, &p.Owner, &p.Alive, &p.Pin); err != nil || number >= s.count {
			return err
		}
		p.Owner, _, _ = strings.Cut(original(p.Owner), " on ") // Acquire adds the host
		p.Pin = original(p.Pin)
		out.Partitions[number] = p
		return nil
	})
	return out, err
}

// Nodes implements cluster.Shareable.
func (s *storage) Nodes() (nodes cluster.Storage, lease time.Duration) { return s, s.lease }
