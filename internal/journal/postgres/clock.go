package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Now returns what the database's clock shows.
func (s *storage) Now(ctx context.Context) (time.Time, error) {
	var micros int64
	err := s.read(ctx, "clock", "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", nil, func() {},
		func(r pgx.Rows) error { return r.Scan(&micros) })
	return time.UnixMicro(micros), err
}
