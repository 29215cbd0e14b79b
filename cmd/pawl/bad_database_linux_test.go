package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// superuser runs statements on a server, beside Pawl.
func superuser(t *testing.T, dsn string) func(statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(statements ...string) {
		t.Helper()
		for _, text := range statements {
			if _, err := conn.Exec(t.Context(), text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
}

// as returns the address for another user, whose password is x.
func as(t *testing.T, dsn, user string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "x")
	return u.String()
}

// TestBadDatabase checks that the command says which database it is, what is wrong with it and what to do, and ends.
func TestBadDatabase(t *testing.T) {
	nightly.Only(t, "it starts sixty processes beside a database server")
	t.Parallel()
	dsn := pgtest.StartServer(t).DSN()
	dir := t.TempDir()
	write(t, dir, "work.yaml", workFlow)
	for _, schema := range []string{"pawl", "newer"} {
		out, err := command(t, dir, "run", "work.yaml", "--database", dsn+"&schema="+schema).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	superuser(t, dsn)("CREATE USER reader PASSWORD 'x'", "GRANT USAGE ON SCHEMA pawl TO reader",
		"GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO reader",
		"CREATE USER crowded PASSWORD 'x' CONNECTION LIMIT 0",
		"CREATE USER hasty PASSWORD 'x' SUPERUSER", "ALTER ROLE hasty SET statement_timeout = '1ms'",
		"CREATE SCHEMA shop", "CREATE TABLE shop.runs (id int)",
		"UPDATE newer.meta SET value = '99' WHERE key = 'oldest'")
	silent := pgtest.NewProxy(t, dsn)
	silent.Hold()
	commands := [][]string{{"run", "work.yaml"}, {"server", ".", "--listen", "127.0.0.1:0"}}
	for _, c := range []struct {
		what, dsn, says string
		commands        int // 1 where it is tried for a while
	}{
		{"syntax", "postgres://pawl:s3cret@h:port/d", "write it like postgres://user:password@host:5432/database", 2},
		{"port", "postgres://pawl:s3cret@127.0.0.1:1/d", "(?s)127.0.0.1:1/d.*correct the host and the port", 1},
		{"host", "postgres://pawl:s3cret@nobody.invalid/d", "(?s)nobody.invalid:5432/d.*the host and the port", 1},
		{"database", strings.Replace(dsn, "/postgres?", "/nothing?", 1), "create the database, or correct its name", 2},
		{"password", as(t, dsn, "pawl"), "correct the user or the password", 2},
		{"user", as(t, dsn, "clerk"), "correct the user or the password", 2},
		{"schema", dsn + "&schema=A-b", "schema=A-b: write a name", 2},
		{"partitions", dsn + "&partitions=3", "has 8 partitions, not 3", 2},
		{"option", dsn + "&pool_max_conns=many", "correct the database's address: .*pool_max_conns", 2},
		{"setting", dsn + "&colour=green", `"colour".*correct the settings at the end of the address`, 2},
		{"TLS", strings.Replace(dsn, "=disable", "=require", 1), "refused TLS.*correct sslmode", 1},
		{"silent", silent.DSN() + "&statement_timeout=1s", "has not answered within 1s", 1},
		{"read-only", dsn + "&schema=none&default_transaction_read_only=on", "name the primary", 2},
		{"reading", as(t, dsn, "reader"), "grant the user the rights on the schema and its tables", 2},
		{"creating", as(t, dsn, "reader") + "&schema=none", "to create them, that to create schemas", 2},
		{"foreign", dsn + "&schema=shop", "that are not Pawl's; name a schema for Pawl alone with .schema=NAME", 2},
		{"newer", dsn + "&schema=newer", "needs code that knows version 99; this one knows", 2},
		{"connections", as(t, dsn, "crowded"), "raise max_connections of the server, or lower pool_max_conns", 1},
		{"time", as(t, dsn, "hasty") + "&schema=none", "longer than the server allows: raise its statement_timeout", 1},
	} {
		for _, args := range commands[:c.commands] {
			t.Run(fmt.Sprint(c.what, " ", args[0]), func(t *testing.T) {
				refusedBy(t, command(t, dir, append(args, "--database", c.dsn)...), c.says)
			})
		}
	}
	t.Run("held", func(t *testing.T) {
		startServer(t, dir, ".", "--database", dsn)
		refusedBy(t, command(t, dir, "server", ".", "--listen", "127.0.0.1:0", "--database", dsn), "is owned by pid")
	})
}

// refusedBy expects a command to end by itself with exit code 1, and to say what to do without the password.
func refusedBy(t *testing.T, cmd *exec.Cmd, says string) {
	t.Helper()
	stop := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if !regexp.MustCompile(says).Match(out) || strings.Contains(string(out), "s3cret") {
		t.Errorf("it says %s", out)
	}
}

// failing waits until a start and /readyz say what is wrong. The start is always the same run's.
func (b *nodesBed) failing(c *httpapi.Client, says string) {
	b.Helper()
	re, said := regexp.MustCompile(says), ""
	for end := time.Now().Add(patience); time.Now().Before(end); {
		r := api.StartRequest{WorkflowID: "started while it fails", UseExisting: true}
		if _, err := c.StartNamed(b.Context(), "work", r); err != nil && !re.MatchString(said) {
			said = err.Error()
		}
		if err := c.Ready(b.Context()); re.MatchString(said) && err != nil && re.MatchString(err.Error()) {
			return
		}
	}
	b.Fatalf("a start says %q, want %s; ready: %v", said, says, c.Ready(b.Context()))
}

// unanswered asks a node for what it has to read while its database is silent. It says so, and that one may ask again.
func (b *nodesBed) unanswered(p *process, run string) {
	b.Helper()
	for _, path := range []string{"/runs?workflow=work", "/runs/" + run + "/history"} {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, p.address+httpapi.Base+path, http.NoBody)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Error(err)
			continue
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			b.Errorf("%s is answered with %s %v: %s", path, res.Status, res.Header, body)
		}
	}
}

// mended waits until the run that could not be started is started, and all have ended.
func (b *nodesBed) mended(c *httpapi.Client, ids []string) {
	b.Helper()
	ids = append(ids, b.sent(c, "work", api.StartRequest{WorkflowID: "started while it fails", UseExisting: true}))
	b.ends(c, ids)
	if err := c.Ready(b.Context()); err != nil {
		b.Error(err)
	}
}

// TestDatabaseFails checks a database that takes no writes, or does not answer, while runs are on their way: the node
// says so, and goes on by itself. A dropped database ends the node.
func TestDatabaseFails(t *testing.T) {
	nightly.Only(t, "a database server fails for a while")
	t.Parallel()
	server := pgtest.StartServer(t)
	sql := superuser(t, server.DSN())
	sql("SET default_transaction_read_only = off")
	proxy := pgtest.NewProxy(t, server.DSN())
	b := nodesBedOn(t, proxy.DSN()+"&statement_timeout=1s", server.Lease())
	p, c := b.node()
	b.await(6)

	ids := b.start(c, "read-only", 6)
	sql("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	b.failing(c, "name the primary")
	sql("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	b.mended(c, ids)

	ids = b.start(c, "silent", 6)
	proxy.Hold()
	b.failing(c, "no answer within|has not answered within 1s")
	b.unanswered(p, ids[0])
	proxy.Release()
	b.mended(c, ids)
	b.pawl("doctor")

	sql("DROP SCHEMA pawl CASCADE")
	p.log.await(t, "(?s)pawl: .*the tables were dropped while they were in use; restore a backup")
}

const fill = `DO $$ BEGIN
	FOR size IN REVERSE 13..0 LOOP
		BEGIN
			LOOP INSERT INTO filler VALUES (repeat('x', 1 << size)); END LOOP;
		EXCEPTION WHEN disk_full THEN NULL;
		END;
	END LOOP;
END $$`

// TestDatabaseFull fills the disk of a database while runs are on their way.
func TestDatabaseFull(t *testing.T) {
	nightly.Only(t, "a database server fills a disk")
	t.Parallel()
	dir, err := os.MkdirTemp("", "pawl-small-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=0777"); err != nil {
		t.Skipf("only root can make a small disk, so nothing was tested on a full one: %v", err)
	}
	t.Cleanup(func() { // runs after the server has stopped
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	server := pgtest.StartServer(t)
	space := filepath.Join(dir, "space")
	server.Folder(space)
	sql := superuser(t, server.DSN())
	sql("CREATE TABLESPACE small LOCATION '"+space+"'", "ALTER ROLE pawl SET default_tablespace = small")
	b := nodesBedOn(t, server.DSN(), server.Lease())
	_, c := b.node()
	b.await(6)
	ids := b.start(c, "full", 6)
	sql("CREATE TABLE filler (t text) TABLESPACE small", "ALTER TABLE filler ALTER t SET STORAGE EXTERNAL", fill)
	for i := 0; ; i++ { // ends when the space that the tables have is used up
		r := api.StartRequest{Key: fmt.Sprint(i), Input: []byte(`"` + strings.Repeat("x", 100_000) + `"`)}
		if _, err := c.StartNamed(t.Context(), "work", r); err != nil {
			break
		}
	}
	b.failing(c, "free some space on the database's server")
	sql("DROP TABLE filler")
	b.mended(c, ids)
	b.pawl("doctor")
}

// TestDatabaseClock checks a database whose clock is an hour off, and is set while runs are on their way. A node
// reports the difference from its own clock. Leases follow the database's clock, so all nodes go on, and a dead one
// is replaced.
func TestDatabaseClock(t *testing.T) {
	nightly.Only(t, "a database server of its own")
	t.Parallel()
	server := pgtest.StartServer(t)
	sql := superuser(t, server.DSN())
	set := func(offset string) {
		t.Helper()
		sql("CREATE OR REPLACE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS" +
			" 'SELECT pg_catalog.clock_timestamp() + interval ''" + offset + "'''")
	}
	sql("CREATE SCHEMA clock", "ALTER ROLE pawl SET search_path = clock, pg_catalog") // found before the system's own
	set("1 hour")
	b := nodesBedOn(t, server.DSN(), server.Lease())
	first, _ := b.node()
	first.log.await(t, "clocks of this machine and of the database differ: .*let all machines ask the same time server")
	_, c := b.node()
	b.await(3, 3)
	for _, offset := range []string{"2 hours", "-1 hour", "0 hours"} {
		ids := b.start(c, "clock "+offset, 6)
		set(offset)
		b.ends(c, append(ids, b.start(c, "after "+offset, 6)...))
		b.await(3, 3)
	}
	ids := b.start(c, "killed", 6)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.await(6)
	b.ends(c, ids)
	b.pawl("doctor")
}

// TestFewConnections checks that a node goes on with fewer connections than its pool may have.
func TestFewConnections(t *testing.T) {
	nightly.Only(t, "a database server of its own")
	t.Parallel()
	server := pgtest.StartServer(t)
	dsn := server.DSN()
	b := nodesBedOn(t, dsn, server.Lease())
	superuser(t, dsn)("CREATE USER few PASSWORD 'x' CONNECTION LIMIT 3", "GRANT USAGE ON SCHEMA pawl TO few",
		"GRANT ALL ON ALL TABLES IN SCHEMA pawl TO few")
	direct := b.database
	b.database = as(t, direct, "few")
	_, c := b.node()
	b.database = direct
	b.await(6)
	ids := make([]string, 24)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			r := api.StartRequest{Key: fmt.Sprint(i)}
			out, err := c.StartNamed(t.Context(), "work", r)
			for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
				out, err = c.StartNamed(t.Context(), "work", r)
			}
			if ids[i] = out.Run; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.ends(c, ids)
	b.pawl("doctor")
}

// TestBehindBouncer checks a node behind PgBouncer, which gives the node's connections to other clients between two
// transactions.
func TestBehindBouncer(t *testing.T) {
	nightly.Only(t, "a database server and a pooler")
	t.Parallel()
	server := pgtest.StartServer(t)
	b := nodesBedOn(t, pgtest.StartBouncer(t, server.DSN()), server.Lease())
	first, atA := b.node()
	_, atB := b.node()
	b.await(3, 3)
	ids := append(b.start(atA, "a", 12), b.start(atB, "b", 12)...)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.await(6)
	b.ends(atB, ids)
	b.pawl("doctor")
}
