package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// pruneText deletes the closed runs that ended first. It is one statement, so a run is removed with all its data.
const pruneText = "WITH old AS (SELECT id FROM {schema}.runs_data WHERE partition = $1 AND ended_at > 0 AND" +
	" ended_at < $2" +
	" ORDER BY ended_at, id LIMIT $3)," + dropText

// removeRunText deletes one closed run.
const removeRunText = "WITH old AS (SELECT id FROM {schema}.runs_data WHERE partition = $1 AND ended_at > 0 AND" +
	" id = $2)," + dropText

// dropText deletes all data of the runs of a table named old, and counts them.
const dropText = " h AS (DELETE FROM {schema}.history USING old WHERE run = old.id)," +
	" a AS (DELETE FROM {schema}.attempts_data USING old WHERE run = old.id)," +
	" s AS (DELETE FROM {schema}.steps_data USING old WHERE run = old.id)," +
	" r AS (DELETE FROM {schema}.runs_data d USING old WHERE d.id = old.id RETURNING 1)" +
	" SELECT count(*) FROM r"

// pruneAtOnce is how many runs one statement deletes.
const pruneAtOnce = 500

func (s *storage) Prune(ctx context.Context, partition int, old journal.Old) (n int, err error) {
	if err := s.ready(ctx, partition); err != nil {
		return 0, err
	}
	if old.Run != (core.RunID{}) {
		return drop(ctx, s, removeRunText, partition, old.Run[:])
	}
	for n < old.Limit {
		most := min(old.Limit-n, pruneAtOnce)
		gone, err := drop(ctx, s, pruneText, partition, int64(old.Before), most)
		n += gone
		if err != nil || gone < most {
			return n, err
		}
	}
	return n, nil
}

// drop executes a statement that deletes runs, and returns how many it has deleted.
func drop(ctx context.Context, s *storage, text string, args ...any) (gone int, err error) {
	err = s.again(ctx, func(ctx context.Context) error {
		return s.query(ctx, s.in(text), args, func(r pgx.Rows) error { return r.Scan(&gone) })
	})
	if err != nil {
		return 0, s.wrap("prune", err)
	}
	return gone, nil
}
