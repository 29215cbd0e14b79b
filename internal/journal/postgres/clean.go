package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// cleanAtOnce is how many runs one transaction removes.
const cleanAtOnce = 500

// Clean implements cluster.Stores. Its first transaction makes a later move back start from the beginning, and the last
// one reports that nothing is left; each makes sure that the partition is still kept elsewhere.
func (s *stores) Clean(ctx context.Context, p int, name string) (more bool, err error) {
	if err := s.ready(ctx, p); err != nil {
		return false, err
	}
	if err := s.readMap(ctx); err != nil {
		return false, err
	}
	if name == nameOfFirst {
		name = ""
	}
	at, known := s.layout.Load().index(name)
	if !known {
		return false, nil
	}
	from := s.layout.Load().all[at]
	if err := from.begin(ctx); err != nil {
		return false, err
	}
	t, err := from.long(ctx, pgx.TxOptions{})
	if err != nil {
		return false, from.wrap("move", err)
	}
	defer t.end(ctx)
	if needed, err := s.needed(ctx, t, p); err != nil || needed {
		return false, from.wrap("move", err)
	}
	if more, err = t.cleanPart(ctx, p); err == nil {
		err = t.tx.Commit(ctx)
	}
	if err == nil && !more {
		for _, at := range s.layout.Load().all { // this one, or where a move was called off
			at.hasten(ctx, noIndexText, p)
		}
	}
	return more, from.wrap("move", err)
}

// needed locks a partition's row in a store, and reports whether its rows there are or may become the partition's: the
// store keeps it, should keep it, or has received the last of it under an epoch that is still valid.
func (s *stores) needed(ctx context.Context, t *transaction, p int) (bool, error) {
	var own uint64
	err := t.row(ctx, "SELECT epoch FROM {schema}.partitions WHERE partition = $1 FOR UPDATE NOWAIT", p).Scan(&own)
	if err != nil {
		return true, err
	}
	if err := s.readMap(ctx); err != nil { // now that no move can begin
		return true, err
	}
	l := s.layout.Load()
	keeper := l.all[l.places[p]]
	if keeper == t.storage || l.all[l.targets[p]] == t.storage {
		return true, nil
	}
	if err := keeper.begin(ctx); err != nil {
		return true, err
	}
	o, err := keeper.ownerOf(ctx, p)
	return isAway(o.name) || o.epoch <= own, err
}

// cleanPart removes some runs, or with the last ones all else. What was sent goes in one piece: a partition that reads
// it by an old map must not miss one message and take the next.
func (t *transaction) cleanPart(ctx context.Context, p int) (more bool, err error) {
	ids, err := t.ids(ctx, t.in("SELECT id FROM {schema}.runs_data WHERE partition = $1 LIMIT $2"), p, cleanAtOnce)
	if err == nil {
		err = t.removeRuns(ctx, ids)
	}
	if more = len(ids) == cleanAtOnce; !more && err == nil {
		err = t.removeParts(ctx, p)
	}
	if err != nil {
		return false, err
	}
	return more, t.exec(ctx, "UPDATE {schema}.partitions SET through = 0, last = CASE WHEN $2 THEN last ELSE 0 END"+
		" WHERE partition = $1", p, more)
}
