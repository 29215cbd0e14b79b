package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

func TestMain(m *testing.M) {
	stop := pgtest.Share("-c", "fsync=off") // tests of a server's end start their own
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// with returns the address with parameters: key, value, key, value …
func with(t testing.TB, dsn string, parameters ...string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// own returns the address of a schema for this test alone, which goes when the test ends. The leases are long: no test
// waits for the end of one.
func own(t testing.TB, dsn string) string {
	t.Helper()
	schema := "pawl_test_" + strings.ToLower(rand.Text())
	t.Cleanup(func() { execute(t, dsn, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
	return with(t, dsn, "schema", schema, "lease", "1h", "partitions", "3")
}

// execute executes statements beside the journal.
func execute(t testing.TB, dsn, text string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for _, key := range []string{"schema", "lease", "partitions"} {
		q.Del(key)
	}
	u.RawQuery = q.Encode()
	ctx := context.WithoutCancel(t.Context())
	c, err := pgx.Connect(ctx, u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func opened(t testing.TB, dsn string) *stores {
	t.Helper()
	j, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j.(*stores)
}

func TestJournal(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	journaltest.Run(t, func(t *testing.T) journaltest.Store { return store(t, own(t, server)) })
}

// store returns a journal in one database, or in several of which each keeps a part.
func store(t *testing.T, dsn string, others ...string) journaltest.Store {
	j := opened(t, dsn)
	expire := func() {
		for _, server := range append(others, dsn) {
			execute(t, server, j.in("UPDATE {schema}.partitions SET until = clock_timestamp()"+
				" WHERE owner NOT LIKE '"+awayPrefix+"%'"))
		}
	}
	return journaltest.Store{
		Journal: j,
		Reopen: func() journal.Journal {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = opened(t, dsn)
			return j
		},
		Crash: func() journal.Journal {
			expire() // the process that is gone gives no sign of life
			j = opened(t, dsn)
			return j
		},
		Expire: expire,
		Rows: func(run core.RunID) ([]journal.StepRow, []journal.AttemptRow) {
			ctx := context.WithoutCancel(t.Context())
			at, err := j.at(ctx, int(core.PartitionKey(run))%j.count)
			if err != nil {
				t.Error(err)
			}
			steps, err := at.steps(ctx, uuids{run})
			if err != nil {
				t.Error(err)
			}
			attempts, err := at.attempts(ctx, uuids{run})
			if err != nil {
				t.Error(err)
			}
			return steps, attempts
		},
	}
}
