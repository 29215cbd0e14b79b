package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
)

// removedEpoch is the epoch of all partitions in a store that was removed. It is higher than that of any source, so no
// mover that began before the store was removed can bring one there.
const removedEpoch = math.MaxInt64

const (
	usedText  = "SELECT count(*) FROM {schema}.placements WHERE store = $1 OR target = $1"
	givenText = "SELECT partition FROM {schema}.partitions WHERE owner = $1 AND partition = ANY ($2::int[]) LIMIT 1"
	closeText = "UPDATE {schema}.partitions SET epoch = $1"
	// againText makes a store that was removed what it was when it was added. What it has left is of no use.
	againText = "UPDATE {schema}.partitions SET epoch = 0, last = 0, through = 0 WHERE epoch = $1"
)

// RemoveStore implements cluster.Stores. While the store is being removed, nobody can place a partition there, or bring
// one there because of an earlier read.
func (s *stores) RemoveStore(ctx context.Context, name string, gone bool) error {
	if err := s.usable(true); err != nil {
		return err
	}
	if err := s.readMap(ctx); err != nil {
		return err
	}
	l := s.layout.Load()
	i, known := l.index(name)
	if !known || i == 0 {
		return unfit("there is no store %q that can be removed", name)
	}
	first, err := s.long(ctx, pgx.TxOptions{})
	if err != nil {
		return s.wrap("remove a store", err)
	}
	defer first.end(ctx)
	// The lock is in a separate statement, so that the next one sees what was placed until then.
	used := 0
	if err = first.exec(ctx, "SELECT 1 FROM {schema}.stores WHERE name = $1 FOR UPDATE", name); err == nil {
		err = first.row(ctx, usedText, name).Scan(&used)
	}
	if used > 0 {
		return unfit("the store %s keeps partitions, or they are being moved there: move them to another one first",
			name)
	}
	if err == nil {
		err = l.shut(ctx, l.all[i], gone)
	}
	if err == nil {
		err = first.exec(ctx, "DELETE FROM {schema}.stores WHERE name = $1", name)
	}
	if err == nil {
		err = first.tx.Commit(ctx)
	}
	if err != nil {
		return s.wrap("remove a store", err)
	}
	return s.readMap(ctx)
}

// shut makes sure that a store keeps no partition, and that none can be brought there any longer. A store that was
// declared lost may be silent. One that answers nevertheless is asked as any other: a mover may still reach it.
func (l *layout) shut(ctx context.Context, o *storage, gone bool) error {
	within, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	t, err := o.lockAll(within)
	switch {
	case err != nil && gone && ctx.Err() == nil:
		return l.noneGiven(ctx, o)
	case err != nil:
		return unfit("%v; if that database is lost for good, say so with --gone", silent(ctx, within, o.timeout, err))
	}
	defer t.end(ctx)
	all, err := t.owned(within)
	if err != nil {
		return o.wrap("remove a store", err)
	}
	for _, p := range all {
		busy := !isAway(original(p.Owner))
		if !busy && p.Epoch > 0 && p.Partition < len(l.places) {
			// A mover that has brought everything, under the lease that the source has now, may be about to finish,
			// or has done all but to change the map.
			source := l.all[l.places[p.Partition]]
			now, err := source.ownerOf(ctx, p.Partition)
			if err != nil {
				return source.wrap("remove a store", err)
			}
			busy = now.epoch == p.Epoch || isAway(now.name)
		}
		if busy {
			return unfit("partition %d is being moved to the store %s, or from it: try again in some seconds",
				p.Partition, o.id)
		}
	}
	if err = t.exec(within, closeText, int64(removedEpoch)); err == nil {
		err = t.tx.Commit(within)
	}
	return o.wrap("remove a store", err)
}

// noneGiven makes sure that no source has leased a partition to a store, where the store cannot be asked. The map
// changes only later, and not at all if the move was cancelled in between.
func (l *layout) noneGiven(ctx context.Context, o *storage) error {
	for i, source := range l.all {
		if source == o || len(l.keeps[i]) == 0 {
			continue
		}
		if err := source.begin(ctx); err != nil {
			return err
		}
		given := -1
		err := source.read(ctx, "remove a store", source.in(givenText), []any{awayTo(o), l.keeps[i]},
			func() { given = -1 }, func(r pgx.Rows) error { return r.Scan(&given) })
		if err != nil {
			return err
		}
		if given >= 0 {
			return unfit("partition %d was given to the store %s before its move was called off: it is taken into use"+
				" there as soon as the store answers, and can be moved back then", given, o.id)
		}
	}
	return nil
}

// lockAll begins a transaction on a store during which no mover writes there.
func (s *storage) lockAll(ctx context.Context) (*transaction, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	t, err := s.long(ctx, pgx.TxOptions{})
	if err != nil {
		return nil, s.wrap("remove a store", err)
	}
	if err := t.exec(ctx, "LOCK TABLE {schema}.partitions IN EXCLUSIVE MODE"); err != nil {
		t.end(ctx)
		return nil, s.wrap("remove a store", err)
	}
	return t, nil
}

// owned is a store's data of a partition.
type owned struct {
	Partition int
	Owner     string
	Epoch     uint64
}

func (t *transaction) owned(ctx context.Context) ([]owned, error) {
	rows, err := t.tx.Query(ctx, t.in("SELECT partition, owner, epoch FROM {schema}.partitions"), t.mode())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[owned])
}
