package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/internal/journal"
)

// Reindex makes all indexes of the file again. It repairs indexes that do not fit their tables.
func (j *Journal) Reindex(ctx context.Context) error {
	return j.change(ctx, "reindex", func() (int, error) { return 0, execute(j.w.conn, "REINDEX") })
}

// Rewrite replaces all rows of runs by those of a view, which has to be computed from their histories. Histories stay
// as they are.
func (j *Journal) Rewrite(ctx context.Context, v *journal.View) error {
	return j.change(ctx, "rewrite", func() (int, error) {
		for _, table := range []string{
			"DELETE FROM attempts_data WHERE run = ?", "DELETE FROM steps_data WHERE run = ?",
			"DELETE FROM ended_data WHERE run = ?", "DELETE FROM told WHERE run = ?",
			"DELETE FROM labels WHERE run = ?", "DELETE FROM runs_data WHERE id = ?",
		} {
			s, err := j.w.conn.stmt(table)
			if err != nil {
				return 0, err
			}
			for i := range v.Runs {
				s.BindBytes(1, v.Runs[i].ID[:])
				if err := do(s); err != nil {
					return 0, err
				}
			}
		}
		return j.w.view(0, &journal.View{Runs: v.Runs, Steps: v.Steps, Attempts: v.Attempts})
	})
}
