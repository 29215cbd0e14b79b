package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/relay"
)

// outboxConns are the connections that the relay of callers' messages may use beside the pool: one to listen, one to
// deliver, and a spare one, for which the relay checks before it listens.
const outboxConns = 3

// openOutbox prepares what reads the messages of callers. It makes no connection yet.
func (s *storage) openOutbox(ctx context.Context) error {
	err := s.again(ctx, func(ctx context.Context) error {
		return s.query(ctx, s.in("SELECT value FROM {schema}.meta WHERE key = 'database'"), nil,
			func(r pgx.Rows) error { return r.Scan(&s.outbox.Database) })
	})
	if err != nil {
		return err
	}
	if s.outbox.Database == "" {
		return fmt.Errorf("%w: %s has a table meta without its database's id: it was changed by hand",
			journal.ErrNoJournal, s.name)
	}
	s.outbox.Name = s.in("{schema}.outbox")
	s.outbox.DB = s.unpreparedDB()
	s.outbox.DB.SetMaxOpenConns(outboxConns)
	return nil
}

// unpreparedDB returns a database/sql database with connections of its own. It prepares no statements, because
// database/sql does not know the fallback for poolers that do not support them.
func (s *storage) unpreparedDB() *sql.DB {
	cfg := s.pool.Config().ConnConfig.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	return stdlib.OpenDB(*cfg)
}

func (s *storage) Outbox() relay.Table { return s.outbox }
