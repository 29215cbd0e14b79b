package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// refuses expects an error of a kind, nil for none of the journal's, whose text says something and no password.
func refuses(t *testing.T, what string, err, kind error, says string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: no error", what)
	case kind != nil && !errors.Is(err, kind):
		t.Errorf("%s: %v, want %v", what, err, kind)
	case !strings.Contains(err.Error(), says):
		t.Errorf("%s: %q does not say %q", what, err, says)
	case strings.Contains(err.Error(), "s3cret"):
		t.Errorf("%s: %q tells the password", what, err)
	}
}

// TestBadAddresses checks that a wrong address is refused before anything is connected to.
func TestBadAddresses(t *testing.T) {
	for dsn, says := range map[string]string{
		"postgres:":                    "is not understood: write it like postgres://",
		"mysql://u:s3cret@h/d":         "is not understood: write it like postgres://",
		"postgres://u:s3cret@h:port/d": "is not understood: write it like postgres://",
		"postgres://u:s3cret@h/d?schema=Shop": "schema=Shop: write a name of at most 63" +
			" lower-case letters",
		"postgres://u:s3cret@h/d?schema=a-b":                        "schema=a-b: write a name",
		"postgres://u:s3cret@h/d?schema=" + strings.Repeat("a", 64): "write a name of at most 63",
		"postgres://u:s3cret@h/d?partitions=0":                      "partitions=0: write a number from 1 to 16384",
		"postgres://u:s3cret@h/d?partitions=many":                   "partitions=many: write a number",
		"postgres://u:s3cret@h/d?lease=soon":                        "lease=soon: write a duration of at least 100ms",
		"postgres://u:s3cret@h/d?lease=10ms":                        "lease=10ms: write a duration of at least 100ms",
		"postgres://u:s3cret@h/d?statement_timeout=-1":              "statement_timeout=-1: write a duration",
		"postgres://u:s3cret@h/d?pool_max_conns=none":               "pool_max_conns",
		"postgres://u:s3cret@h/d?sslmode=perhaps":                   "sslmode",
	} {
		_, err := Open(t.Context(), dsn)
		refuses(t, dsn, err, nil, says)
	}
	p, err := parse("postgresql://u@h/d?search_path=shop,public&lease=5s&statement_timeout=1500&pool_max_conns=3")
	if err != nil || p.schema != "shop" || p.lease.Seconds() != 5 || p.timeout.Milliseconds() != 1500 ||
		p.pool.MaxConns != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestRefused checks the errors if the database cannot be opened.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := pgtest.StartServer(t, "-c", "max_connections=8").DSN()
	dsn := own(t, server)
	opens := func(what, dsn string, kind error, says string) {
		t.Helper()
		_, err := Open(t.Context(), dsn)
		refuses(t, what, err, kind, says)
	}
	opens("nobody there", "postgres://pawl:s3cret@127.0.0.1:1/postgres?sslmode=disable", nil,
		"correct the host and the port")
	opens("no database", strings.Replace(dsn, "/postgres?", "/nothing?", 1), nil, "create the database, or correct"+
		" its name")
	opens("wrong password", strings.Replace(dsn, "pawl:", "pawl:s3cret", 1), nil, "correct the user or the password")

	_, err := OpenReadOnly(t.Context(), dsn)
	refuses(t, "nothing there", err, fs.ErrNotExist, "has no tables yet, starting a run with it creates them")
	if j := opened(t, dsn); j.PartitionCount() != 3 {
		t.Errorf("%d partitions", j.PartitionCount())
	}
	opens("another number of partitions", with(t, dsn, "partitions", "4"), nil, "has 3 partitions, not 4, and keeps"+
		" them")

	place, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, "CREATE USER clerk PASSWORD 's3cret'")
	clerk := strings.Replace(dsn, place.pool.ConnConfig.User+":"+place.pool.ConnConfig.Password, "clerk:s3cret", 1)
	opens("no rights on the schema", clerk, journal.ErrReadOnly, "grant the user the rights")
	opens("no right to create a schema", with(t, clerk, "schema", "clerks"), journal.ErrReadOnly, "grant the user"+
		" the rights")
	execute(t, dsn, place.in("GRANT USAGE ON SCHEMA {schema} TO clerk; GRANT SELECT ON ALL TABLES IN SCHEMA"+
		" {schema} TO clerk"))
	j := opened(t, clerk) // it may look
	_, err = j.Acquire(t.Context(), 0, "clerk")
	refuses(t, "acquire without rights", err, journal.ErrReadOnly, "grant the user the rights")

	execute(t, dsn, "ALTER USER clerk SET default_transaction_read_only = on; GRANT ALL ON ALL TABLES IN SCHEMA"+
		" "+place.schema+
		" TO clerk")
	opens("a standby", clerk, journal.ErrReadOnly, "name the primary")

	look, err := OpenReadOnly(t.Context(), clerk)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = look.Close() }()
	_, err = look.Acquire(t.Context(), 0, "clerk")
	refuses(t, "acquire what is open for looking", err, journal.ErrReadOnly, "open for reading only")

	var busy []*stores
	for range 8 { // three are for superusers alone
		next, err := Open(t.Context(), with(t, clerk, "statement_timeout", "20s",
			"default_transaction_read_only", "off"))
		if err != nil {
			refuses(t, "too few connections", err, nil, "raise max_connections of the server, or lower pool_max_conns")
			break
		}
		busy = append(busy, next.(*stores))
	}
	if len(busy) == 8 {
		t.Error("there is always one more connection")
	}
	for _, j := range busy {
		_ = j.Close()
	}
}

// TestSchemas checks the errors for tables of another version, or somebody else's.
func TestSchemas(t *testing.T) {
	server := pgtest.Start(t)
	dsn := own(t, server)
	place, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	run := func(text string) { t.Helper(); execute(t, dsn, place.in(text)) }
	run("CREATE SCHEMA {schema}; CREATE TABLE {schema}.runs (id int); CREATE TABLE {schema}.other (id int)")
	_, err = Open(t.Context(), dsn)
	refuses(t, "somebody's tables", err, journal.ErrNoJournal, "name a schema for Pawl alone with ?schema=NAME")
	run("CREATE TABLE {schema}.meta (id int); CREATE TABLE {schema}.partitions (id int);" +
		" CREATE TABLE {schema}.schema_version (version_id int, is_applied boolean)")
	_, err = Open(t.Context(), dsn)
	refuses(t, "somebody's tables with all names", err, journal.ErrNoJournal, "that is not Pawl's")
	run("DROP SCHEMA {schema} CASCADE")

	// Whoever only looks makes no migration.
	j := opened(t, dsn)
	l := newLine(t, j)
	if err := l.append("a"); err != nil {
		t.Fatal(err)
	}
	run("DELETE FROM {schema}.schema_version WHERE version_id = 2")
	_, err = OpenReadOnly(t.Context(), dsn)
	refuses(t, "an older version", err, nil, "the tables are of version 1, this code reads version 2")
	run("INSERT INTO {schema}.schema_version (version_id, is_applied) VALUES (2, true)")
	if err := l.append("b"); err != nil { // whoever has it open goes on
		t.Error(err)
	}
	same(t, texts(t, opened(t, dsn)), "a", "b")

	// A newer one is used as long as it lets older code use it.
	run("INSERT INTO {schema}.schema_version (version_id, is_applied) VALUES (3, true)")
	opened(t, dsn)
	run("UPDATE {schema}.meta SET value = '3' WHERE key = 'oldest'")
	_, err = Open(t.Context(), dsn)
	refuses(t, "a newer version", err, journal.ErrNewer, "has version 3 of the schema, which needs code that knows"+
		" version 3")
	_, err = OpenReadOnly(t.Context(), dsn)
	refuses(t, "a newer version, to look", err, journal.ErrNewer, "this one knows 2: use the newer Pawl")
	run("UPDATE {schema}.meta SET value = 'what' WHERE key = 'oldest'")
	_, err = Open(t.Context(), dsn)
	refuses(t, "a damaged table", err, journal.ErrNoJournal, "or is damaged")
}

// TestTogether opens a new schema from several processes at once: one makes the tables.
func TestTogether(t *testing.T) {
	server := pgtest.Start(t)
	for range 3 {
		dsn := own(t, server)
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				j, err := Open(t.Context(), dsn)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = j.Close() }()
				if n < 3 {
					if _, err := j.Acquire(t.Context(), n, "test"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
}

// TestStorageFails checks that nothing of a batch that the database refuses is there, and that a later one may succeed.
func TestStorageFails(t *testing.T) {
	server := pgtest.Start(t)
	dsn := own(t, server)
	j, err := Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	l := newLine(t, j)
	place := l.j.(*stores).place
	run := func(text string) { t.Helper(); execute(t, dsn, place.in(text)) }
	for n, c := range []struct {
		code string
		kind error
		says string
	}{
		{diskFull, journal.ErrFull, "nothing was written; free some space"},
		{readOnlyTransaction, journal.ErrReadOnly, "name the primary"},
		{dataCorrupted, journal.ErrCorrupt, "restore a backup"},
		{queryCanceled, nil, "took longer than the server allows"},
		{"22012", nil, "planted"},
	} {
		run("CREATE FUNCTION {schema}.planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN" +
			" RAISE EXCEPTION 'planted' USING ERRCODE = '" + c.code + "'; END $$;" +
			" CREATE TRIGGER planted BEFORE INSERT ON {schema}.history EXECUTE FUNCTION {schema}.planted()")
		b := l.batch("never")
		b.View = &journal.View{History: []journal.HistoryRow{{Run: journaltest.RunID(1), Seq: 1, Entries: []byte{1}}}}
		refuses(t, c.code, l.j.Append(t.Context(), b), c.kind, c.says)
		run("DROP FUNCTION {schema}.planted() CASCADE")
		if err := l.append(fmt.Sprint(n)); err != nil {
			t.Fatalf("after %s: %v", c.code, err)
		}
	}
	same(t, texts(t, l.j), "0", "1", "2", "3", "4")

	run("UPDATE {schema}.journal SET entries = '\\x00' WHERE seq = 3")
	err = l.j.Tail(t.Context(), 0, 0, func(uint64, []core.Entry) error { return nil })
	refuses(t, "a damaged batch", err, journal.ErrCorrupt, "batch 3 of partition 0: ")
	run("DELETE FROM {schema}.journal WHERE seq = 3")
	i, err := l.j.(journal.Inspected).Inspect(t.Context())
	if err != nil || len(i.Problems) != 1 || !strings.Contains(i.Problems[0], "1 batches of partition 0 are missing") {
		t.Errorf("%+v, %v", i, err)
	}

	run("DROP SCHEMA {schema} CASCADE")
	refuses(t, "dropped tables", l.append("x"), journal.ErrGone, "dropped while")
	refuses(t, "dropped tables, at the end", j.Close(), journal.ErrGone, "dropped while")
}

// TestClock checks that an owner that is alive keeps its partition when the database's clock is set forward, unless
// another one asks. A lease of before the clock was put back holds nobody up.
func TestClock(t *testing.T) {
	server := pgtest.Start(t)
	dsn := own(t, server)
	j := opened(t, with(t, dsn, "lease", "10s"))
	l := newLine(t, j)
	for _, hours := range []string{"- 1", "+ 1"} { // an hour earlier or later than the clock says now
		execute(t, dsn, j.in("UPDATE {schema}.partitions SET until = until "+hours+" * interval '1 hour'"))
		if err := l.append("a"); err != nil {
			t.Error(err)
		}
		if _, err := j.Acquire(t.Context(), 0, "other"); !errors.Is(err, journal.ErrHeld) {
			t.Errorf("acquire what is owned: %v", err)
		}
		execute(t, dsn, j.in("UPDATE {schema}.partitions SET until = until "+hours+" * interval '1 hour'"))
		next := newLine(t, j)
		if err := l.append("b"); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("the old owner's append: %v", err)
		}
		l = next
	}
}

// TestTexts checks that texts that PostgreSQL does not take come back as they were.
func TestTexts(t *testing.T) {
	server := pgtest.Start(t)
	l := newLine(t, opened(t, own(t, server)))
	for n, text := range []string{"a\x00b", "\xff\xfe", "\x01", "\x0141", "größer", strings.Repeat("long", 1000)} {
		r := journal.RunRow{
			ID: journaltest.RunID(n), Workflow: text, WorkflowID: text, Key: text, Message: text,
			Phase: core.RunWaiting,
		}
		b := l.batch("a")
		b.View = &journal.View{Runs: []journal.RunRow{r}}
		if err := l.j.Append(t.Context(), b); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		l.lease.Last++
		for _, by := range []journal.Lookup{{WorkflowID: text}, {Workflow: text, Key: text}} {
			if id, err := l.j.Find(t.Context(), by); err != nil || id != r.ID {
				t.Errorf("%q: %v, %v", text, id, err)
			}
		}
		page, err := l.j.List(t.Context(), journal.Query{Workflow: text, WorkflowID: text})
		if err != nil || len(page.Runs) != 1 || page.Runs[0] != r {
			t.Errorf("%q: %+v, %v", text, page, err)
		}
	}
}

// TestBouncer runs the suite through PgBouncer in transaction mode: statements of one client go over connections that
// others use in between.
func TestBouncer(t *testing.T) {
	nightly.Only(t, "it runs the whole suite of journals again")
	server := pgtest.StartServer(t).DSN()
	bouncer := pgtest.StartBouncer(t, server)
	journaltest.Run(t, func(t *testing.T) journaltest.Store { return store(t, own(t, bouncer)) })
}
