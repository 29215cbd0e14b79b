package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// pruneAtOnce is how many runs one transaction deletes. An append has to wait for the transaction, so it must be short.
const pruneAtOnce = 64

func (j *Journal) Prune(ctx context.Context, partition int, old journal.Old) (n int, err error) {
	if old.Run != (core.RunID{}) {
		return j.prune(ctx, partition, old)
	}
	for n < old.Limit {
		most := min(old.Limit-n, pruneAtOnce)
		deleted, err := j.prune(ctx, partition, journal.Old{Before: old.Before, Limit: most})
		n += deleted
		if err != nil || deleted < most {
			return n, err
		}
	}
	return n, nil
}

func (j *Journal) prune(ctx context.Context, partition int, old journal.Old) (n int, err error) {
	err = j.change(ctx, "prune", func() (int, error) {
		ids, err := ended(j.w.conn, partition, old)
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

// ended returns closed runs, the one that ended first in front.
func ended(c *conn, partition int, old journal.Old) (ids []core.RunID, err error) {
	text := "SELECT id FROM runs_data WHERE partition = ? AND ended_at > 0"
	if old.Run != (core.RunID{}) {
		text += " AND id = ?"
	} else {
		text += " AND ended_at < ? ORDER BY ended_at, id LIMIT ?"
	}
	err = query(c, text,
		func(s *sqlite.Stmt) {
			s.BindInt64(1, int64(partition))
			if old.Run != (core.RunID{}) {
				s.BindBytes(2, old.Run[:])
				return
			}
			s.BindInt64(2, int64(old.Before))
			s.BindInt64(3, int64(old.Limit))
		},
		func(s *sqlite.Stmt) (bool, error) {
			var id core.RunID
			s.ColumnBytes(0, id[:])
			ids = append(ids, id)
			return false, nil
		})
	return ids, err
}
