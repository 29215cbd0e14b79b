package conformance

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/pgtest"
	_ "github.com/pawl-dev/pawl/journal/postgres" // the database of these rows
)

// TestConformanceOnPostgres runs the Go rows again, on PostgreSQL.
func TestConformanceOnPostgres(t *testing.T) {
	server := pgtest.StartServer(t).DSN() // of its own: the schemas stay until it is removed
	var schemas atomic.Int64
	before := goDatabase
	t.Cleanup(func() { goDatabase = before })
	goDatabase = func(*testing.T) string {
		// Time is virtual here and the leases are of the server's time, so they are longer than any test takes.
		return within(server, "schema=row_"+strconv.FormatInt(schemas.Add(1), 10)+"&lease=100000h")
	}
	for _, id := range slices.Sorted(maps.Keys(goRows)) {
		t.Run(id, func(t *testing.T) {
			for _, test := range goRows[id] {
				test(t)
			}
		})
	}
}

func within(dsn, parameters string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + parameters
	}
	return dsn + "?" + parameters
}
