package pawltest_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/pgtest"
	_ "github.com/pawl-dev/pawl/journal/postgres"
	"github.com/pawl-dev/pawl/pawltest"
)

// TestReplayPostgres replays the runs of a database in PostgreSQL whose partitions the program owns.
func TestReplayPostgres(t *testing.T) {
	cfg := productionIn(t, pgtest.StartServer(t).DSN())
	cfg.Workflows = []pawl.Definition{trip("book")}
	if n := pawltest.ReplayDatabase(t, cfg, client.Query{}); n != 2 {
		t.Errorf("%d runs were replayed", n)
	}
	cfg.Workflows = []pawl.Definition{trip("reserve")}
	said := record(t, func(t testing.TB) { pawltest.ReplayDatabase(t, cfg, client.Query{Limit: 1}) })
	if !strings.Contains(said, `recorded is step "book"`) {
		t.Errorf("changed code: %q", said)
	}
}
