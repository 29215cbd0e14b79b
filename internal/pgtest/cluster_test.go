package pgtest_test

import (
	"context"
	"database/sql"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-dev/pawl/internal/pgtest"
)

func TestStart(t *testing.T) {
	if os.Getenv(pgtest.Given) != "" {
		t.Skip("this test stops its server; it cannot stop the given one")
	}
	var dsn string
	t.Run("runs", func(t *testing.T) {
		dsn = pgtest.Start(t)
		if got, err := fsync(t.Context(), dsn); err != nil || got != "on" {
			t.Errorf("fsync %q, %v", got, err)
		}
	})
	if dsn == "" {
		t.Skip("there is no PostgreSQL")
	}
	if _, err := fsync(t.Context(), dsn); err == nil {
		t.Error("the server still runs after its test")
	}
}

func fsync(ctx context.Context, dsn string) (got string, err error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	err = db.QueryRowContext(ctx, "SHOW fsync").Scan(&got)
	return got, err
}
