package postgres

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal"
)

// The statements about owners. A lease is compared with the database's clock as it is at that moment, not with the
// start of a transaction that may have waited. A lease that ends later than one can is of before the clock was put
// back: it does not count, since its owner would have renewed it by now. A statement that takes a partition may be sent
// again, and carried out both times, the first one last: the same mark tells, and the epoch stays.
const (
	acquireText = "INSERT INTO {schema}.partitions AS p (partition, epoch, owner, until, term, last, through, mark)" +
		" VALUES ($1, 1, $2, clock_timestamp() + $3 * interval '1 microsecond', $3, 0, 0, $4)" +
		" ON CONFLICT (partition) DO UPDATE SET epoch = p.epoch + CASE WHEN p.mark = $4 THEN 0 ELSE 1 END," +
		" owner = excluded.owner, until = excluded.until, term = excluded.term, mark = excluded.mark" +
		" WHERE p.owner = '' OR p.mark = $4 OR p.until <= clock_timestamp()" +
		" OR p.until > clock_timestamp() + 2 * p.term * interval '1 microsecond'" +
		" RETURNING p.epoch, p.last, p.through"
	renewText = "UPDATE {schema}.partitions SET until = clock_timestamp() + term * interval '1 microsecond'" +
		" WHERE partition = $1 AND epoch = $2 AND owner <> '' RETURNING epoch, last, through"
	releaseText = "UPDATE {schema}.partitions SET owner = '', epoch = epoch + 1 WHERE partition = $1 AND epoch = $2"
	ownerText   = "SELECT epoch, owner, last, mark FROM {schema}.partitions WHERE partition = $1"
	// confirmText reads the same with its own commit, see [storage.confirmedOwner].
	confirmText = "UPDATE {schema}.partitions SET mark = mark WHERE partition = $1 RETURNING epoch, owner, last, mark"
	standText   = "SELECT sender, '', through, false FROM {schema}.taken WHERE partition = $1" +
		" UNION ALL SELECT -1, name, seq, lapsed FROM {schema}.feeds WHERE partition = $1 AND NOT removed"
	feedBytesText = "SELECT coalesce(sum(length(entries)), 0)::bigint FROM {schema}.journal WHERE partition = $1" +
		" AND seq > $2"
)

// owner is the owner of a partition, and its last batch.
type owner struct {
	epoch, last uint64
	name        string
	mark        int64
}

// Acquire implements journal.Journal. If an answer gets lost the statement is sent again, and finds its own mark.
func (s *storage) Acquire(ctx context.Context, n int, name string) (journal.Lease, error) {
	if err := s.ready(ctx, n); err != nil {
		return journal.Lease{}, err
	}
	if name == "" {
		name = "somebody"
	}
	if host, err := os.Hostname(); err == nil {
		name += " on " + host // the others are on other machines
	}
	l := journal.Lease{Term: s.lease}
	mark, got := s.nextMark(), false
	err := s.again(ctx, func(ctx context.Context) error {
		err := s.query(ctx, s.in(acquireText), []any{n, stored(name), s.lease.Microseconds(), mark},
			func(r pgx.Rows) error { got = true; return r.Scan(&l.Epoch, &l.Last, &l.Through) })
		if err != nil || got {
			return err
		}
		o, err := s.ownerOf(ctx, n)
		if err == nil {
			err = &journal.HeldError{Partition: n, Owner: o.name, Term: s.lease}
		}
		return err
	})
	if err == nil {
		err = s.stand(ctx, n, &l)
	}
	if err != nil {
		return journal.Lease{}, s.wrap("acquire", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.Lease{}, errClosed
	}
	s.owned[n] = l.Epoch
	return l, nil
}

// ready returns an error if a partition cannot be written or is not there.
func (s *storage) ready(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.usable(true); err != nil {
		return err
	}
	if n < 0 || n >= s.count {
		return fmt.Errorf("journal: %s: there is no partition %d, it has %d", s.name, n, s.count)
	}
	return nil
}

func (s *storage) Renew(ctx context.Context, n int, epoch uint64) (journal.Lease, error) {
	if err := ctx.Err(); err != nil {
		return journal.Lease{}, err
	}
	if err := s.usable(true); err != nil {
		return journal.Lease{}, err
	}
	l := journal.Lease{Term: s.lease}
	got := false
	err := s.again(ctx, func(ctx context.Context) error {
		return s.query(ctx, s.in(renewText), []any{n, int64(epoch)},
			func(r pgx.Rows) error { got = true; return r.Scan(&l.Epoch, &l.Last, &l.Through) })
	})
	if err == nil && !got {
		return journal.Lease{}, fenced(n, epoch)
	}
	if err == nil {
		err = s.stand(ctx, n, &l)
	}
	if err != nil {
		return journal.Lease{}, s.wrap("renew", err)
	}
	return l, nil
}

func fenced(n int, epoch uint64) error {
	return fmt.Errorf("%w: partition %d has no owner with epoch %d", journal.ErrFenced, n, epoch)
}

// Release implements journal.Journal. The epoch grows, so nothing of the owner that is still on its way is written.
func (s *storage) Release(ctx context.Context, n int, epoch uint64) error {
	if err := s.usable(true); err != nil {
		return err
	}
	err := s.again(ctx, func(ctx context.Context) error { return s.release(ctx, n, epoch) })
	if err == nil {
		s.mu.Lock()
		if s.owned[n] == epoch {
			delete(s.owned, n)
		}
		s.mu.Unlock()
	}
	return s.wrap("release", err)
}

func (s *storage) release(ctx context.Context, n int, epoch uint64) error {
	return s.query(ctx, s.in(releaseText), []any{n, int64(epoch)}, func(pgx.Rows) error { return nil })
}

// ownerOf reads who owns a partition.
func (s *storage) ownerOf(ctx context.Context, n int) (owner, error) {
	return s.ownerBy(ctx, ownerText, n)
}

// confirmedOwner reads who owns a partition, from data that no failover takes back. A commit that waited for a
// synchronous standby when the server was restarted is there, but the standby may not have it. A later commit, which
// waits for the standby in its turn, includes it.
func (s *storage) confirmedOwner(ctx context.Context, n int) (owner, error) {
	return s.ownerBy(ctx, confirmText, n)
}

// replicatedText writes nothing if no server has to follow.
const replicatedText = "UPDATE {schema}.partitions SET mark = mark WHERE partition = $1" +
	" AND current_setting('synchronous_standby_names', true) <> '' RETURNING epoch, owner, last, mark"

// replicated returns when no failover takes back earlier reads, see [storage.confirmedOwner]. It writes the row of a
// partition that is kept here. Within one store this is not needed: later writes are lost before earlier ones.
func (s *storage) replicated(ctx context.Context, n int) error {
	_, err := s.ownerBy(ctx, replicatedText, n)
	return err
}

func (s *storage) ownerBy(ctx context.Context, text string, n int) (o owner, err error) {
	err = s.query(ctx, s.in(text), []any{n}, func(r pgx.Rows) error {
		err := r.Scan(&o.epoch, &o.name, &o.last, &o.mark)
		o.name = original(o.name)
		return err
	})
	return o, err
}

// stand reads the rest of a lease: the messages that were taken, and the feeds. Only the owner changes them.
func (s *storage) stand(ctx context.Context, n int, l *journal.Lease) error {
	err := s.again(ctx, func(ctx context.Context) error {
		l.Taken, l.Feeds = nil, nil
		return s.query(ctx, s.in(standText), []any{n}, func(r pgx.Rows) error {
			var sender int
			var f journal.Feed
			if err := r.Scan(&sender, &f.Name, &f.Seq, &f.Lapsed); err != nil {
				return err
			}
			if sender < 0 {
				f.Name = original(f.Name)
				l.Feeds = append(l.Feeds, f)
				return nil
			}
			if l.Taken == nil {
				l.Taken = map[int]uint64{}
			}
			l.Taken[sender] = f.Seq
			return nil
		})
	})
	if err != nil {
		return err
	}
	slices.SortFunc(l.Feeds, func(a, b journal.Feed) int { return cmp.Compare(a.Name, b.Name) })
	oldest, found := uint64(0), false
	for _, f := range l.Feeds {
		if !f.Lapsed && (!found || f.Seq < oldest) {
			oldest, found = f.Seq, true
		}
	}
	if !found {
		return nil
	}
	return s.again(ctx, func(ctx context.Context) error {
		return s.query(ctx, s.in(feedBytesText), []any{n, int64(oldest)},
			func(r pgx.Rows) error { return r.Scan(&l.FeedBytes) })
	})
}
