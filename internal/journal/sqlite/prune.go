package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
)

// pruneAtOnce is how many runs one transaction deletes. An append has to wait for the transaction, so it must be short.
const pruneAtOnce = 64

// Prune implements journal.Journal.
func (j *Journal) Prune(ctx context.Context, partition int, before core.Time, limit int) (n int, err error) {
	for n < limit {
		most := min(limit-n, pruneAtOnce)
		deleted, err := j.prune(ctx, partition, before, most)
		n += deleted
		if err != nil || deleted < most {
			return n, err
		}
	}
	return n, nil
}

func (j *Journal) prune(ctx context.Context, partition int, before core.Time, most int) (n int, err error) {
	err = j.change(ctx, "prune", func() (int, error) {
		ids, err := ended(j.w.conn, partition, before, most)
		if err != nil {
			return 0, err
		}
		if err := j.w.pruneLarge(partition, ids); err != nil {
			return 0, err
		}
		for _, table := range []string{
			"DELETE FROM history WHERE run = ?", "DELETE FROM attempts_data WHERE run = ?",
			"DELETE FROM steps_data WHERE run = ?",
			"DELETE FROM labels WHERE run = ?", "DELETE FROM runs_data WHERE id = ?",
			"DELETE FROM ended_data WHERE run = ?",
		} {
			s, err := j.w.conn.stmt(table)
			if err != nil {
				return 0, err
			}
			for i := range ids {
				s.BindBytes(1, ids[i][:])
				if err := do(s); err != nil {
					return 0, err
				}
			}
		}
		n = len(ids)
		return n * 8 * rowCost, nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// ended returns closed runs that ended before the instant, the earliest first.
func ended(c *conn, partition int, before core.Time, most int) (ids []core.RunID, err error) {
	err = query(c, "SELECT id FROM runs_data WHERE partition = ? AND ended_at > 0 AND ended_at < ?"+
		" ORDER BY ended_at, id LIMIT ?",
		func(s *sqlite.Stmt) {
			s.BindInt64(1, int64(partition))
			s.BindInt64(2, int64(before))
			s.BindInt64(3, int64(most))
		},
		func(s *sqlite.Stmt) (bool, error) {
			var id core.RunID
			s.ColumnBytes(0, id[:])
			ids = append(ids, id)
			return false, nil
		})
	return ids, err
}
