package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

// Reindex makes all indexes of the file anew. It repairs indexes that do not fit their tables.
func (j *Journal) Reindex(ctx context.Context) error {
	return j.repair(ctx, "reindex", func() error { return execute(j.w.conn, "REINDEX") })
}

// Rewrite replaces all rows of runs by those of a view, which has to be computed from their histories. Histories stay
// as they are.
func (j *Journal) Rewrite(ctx context.Context, v *journal.View) error {
	return j.repair(ctx, "rewrite", func() error {
		for _, table := range []string{
			"DELETE FROM attempts_data WHERE run = ?", "DELETE FROM steps_data WHERE run = ?",
			"DELETE FROM labels WHERE run = ?", "DELETE FROM runs_data WHERE id = ?",
		} {
			s, err := j.w.conn.stmt(table)
			if err != nil {
				return err
			}
			for i := range v.Runs {
				s.BindBytes(1, v.Runs[i].ID[:])
				if err := do(s); err != nil {
					return err
				}
			}
		}
		_, err := j.w.view(&journal.View{Runs: v.Runs, Steps: v.Steps, Attempts: v.Attempts})
		return err
	})
}

// repair changes the file in one transaction.
func (j *Journal) repair(ctx context.Context, op string, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.writable(); err != nil {
		return err
	}
	if err := j.w.transaction(fn); err != nil {
		return j.failed(op, err)
	}
	return nil
}
