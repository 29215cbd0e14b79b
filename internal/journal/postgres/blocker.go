package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal"
)

var _ journal.Blockable = (*stores)(nil)

// blockerText finds a session that holds up a statement on the schema, the one that waits for nobody itself first.
const blockerText = "SELECT b.pid, coalesce(b.application_name, ''), coalesce(b.state, '')," +
	" left(coalesce(b.query, ''), 200), coalesce(extract(epoch FROM clock_timestamp() - b.xact_start), 0)::float8" +
	" FROM pg_catalog.pg_stat_activity a" +
	" CROSS JOIN LATERAL unnest(pg_catalog.pg_blocking_pids(a.pid)) AS w (pid)" +
	" JOIN pg_catalog.pg_stat_activity b ON b.pid = w.pid" +
	" WHERE a.datname = current_database() AND a.wait_event_type = 'Lock' AND strpos(a.query, $1) > 0" +
	" ORDER BY b.wait_event_type = 'Lock', b.xact_start LIMIT 1"

// Blocker implements journal.Blockable.
func (s *stores) Blocker(ctx context.Context, partition int) (text string) {
	at, err := s.at(ctx, partition)
	if err != nil {
		return ""
	}
	err = at.query(ctx, blockerText, []any{at.in("{schema}.")}, func(r pgx.Rows) error {
		var pid int
		var name, state, query string
		var seconds float64
		err := r.Scan(&pid, &name, &state, &query, &seconds)
		text = fmt.Sprintf("the database's process %d (%s, %s for %.0f s) holds a lock: %s", pid, name, state, seconds,
			query)
		return err
	})
	if err != nil {
		return ""
	}
	return text
}
