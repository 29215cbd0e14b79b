package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/core"
)

// pruneText deletes the closed runs that ended first. It is one statement, so a run is removed with all its data.
const pruneText = "WITH old AS (SELECT id FROM {schema}.runs_data WHERE partition = $1 AND ended_at > 0 AND" +
	" ended_at < $2" +
	" ORDER BY ended_at, id LIMIT $3)," +
	" h AS (DELETE FROM {schema}.history USING old WHERE run = old.id)," +
	" a AS (DELETE FROM {schema}.attempts_data USING old WHERE run = old.id)," +
	" s AS (DELETE FROM {schema}.steps_data USING old WHERE run = old.id)," +
	" r AS (DELETE FROM {schema}.runs_data d USING old WHERE d.id = old.id RETURNING 1)" +
	" SELECT count(*) FROM r"

// pruneAtOnce is how many runs one statement deletes.
const pruneAtOnce = 500

// Prune implements journal.Journal.
func (s *storage) Prune(ctx context.Context, partition int, before core.Time, limit int) (n int, err error) {
	if err := s.ready(ctx, partition); err != nil {
		return 0, err
	}
	for n < limit {
		most, gone := min(limit-n, pruneAtOnce), 0
		err := s.again(ctx, func(ctx context.Context) error {
			return s.query(ctx, s.in(pruneText), []any{partition, int64(before), most},
				func(r pgx.Rows) error { return r.Scan(&gone) })
		})
		n += gone
		if err != nil {
			return n, s.wrap("prune", err)
		}
		if gone < most {
			break
		}
	}
	return n, nil
}
