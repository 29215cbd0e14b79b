// Package pgtest starts throw-away PostgreSQL clusters for tests. It links no driver.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// Given names a database to use instead of a throw-away cluster.
	Given = "PAWL_TEST_POSTGRES"
	// Required, set to 1, turns the skip where PostgreSQL is missing into a failure.
	Required = "PAWL_REQUIRE_POSTGRES"
)

const missing = "PostgreSQL is missing, so nothing was tested against it: install it (apt-get install postgresql, " +
	"brew install postgresql, dnf install postgresql-server), or set " + Given + " to the DSN of a database to test in"

// Start starts a cluster of the installed version and returns a superuser's DSN. It is stopped and removed when the test
// ends. Where PAWL_TEST_POSTGRES is set that database is returned: a test works in a schema of its own.
func Start(t testing.TB) (dsn string) {
	t.Helper()
	if dsn := os.Getenv(Given); dsn != "" {
		return dsn
	}
	bin, ok := binaries(t.Context())
	if !ok {
		if os.Getenv(Required) == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	// Not t.TempDir: a test's name makes that longer than a socket's path may be, and only its owner may look into it.
	dir, err := os.MkdirTemp("", "pawl-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	who, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{bin: bin, dir: dir, who: who, password: rand.Text()}
	if err := c.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.dsn()
}

// binaries finds the folder with the server's programs: distributions keep them out of PATH.
func binaries(ctx context.Context) (string, bool) {
	var dirs []string
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(p))
		}
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	slices.Reverse(installed)                                  // a newer one first
	for _, dir := range append(dirs, installed...) {
		if executable(dir, "initdb") && executable(dir, "pg_ctl") && executable(dir, "postgres") {
			return dir, true
		}
	}
	return "", false
}

func executable(dir, name string) bool {
	_, err := exec.LookPath(filepath.Join(dir, name))
	return err == nil
}

type cluster struct {
	bin, dir string
	who      *account // nil: whoever runs the test
	password string   // loopback is open to everybody on the machine
	port     int
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) log() string { return filepath.Join(c.dir, "log") }

func (c *cluster) dsn() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("pawl", c.password), Path: "/postgres", RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
	}
	return u.String()
}

func (c *cluster) create(ctx context.Context) error {
	secret := filepath.Join(c.dir, "password")
	if err := os.WriteFile(secret, []byte(c.password+"\n"), 0o600); err != nil {
		return err
	}
	if c.who != nil {
		for _, path := range []string{c.dir, secret} {
			if err := os.Chown(path, c.who.uid, c.who.gid); err != nil {
				return err
			}
		}
	}
	// Without a sync only the making of the cluster is faster: the server itself syncs as it does by default.
	return c.run(ctx, "initdb", "--pgdata", c.data(), "--username", "pawl", "--pwfile", secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
}

// start starts the server on a port that was free a moment ago, and tries others where it is not any more.
func (c *cluster) start(ctx context.Context) error {
	var failed error
	for range 3 {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		c.port = port
		options := fmt.Sprintf("-c listen_addresses=127.0.0.1 -c port=%d -c unix_socket_directories='%s'", c.port, c.dir)
		err = c.run(ctx, "pg_ctl", "--pgdata", c.data(), "--log", c.log(), "--wait", "--options", options, "start")
		if err == nil {
			return nil
		}
		text, _ := os.ReadFile(c.log()) // there may be none yet
		failed = errors.Join(failed, fmt.Errorf("%w\n%s", err, text))
	}
	return failed
}

// stop stops the server whose id the cluster's own file holds, and waits for it. One that never started is no error.
func (c *cluster) stop() error {
	if _, err := os.Stat(filepath.Join(c.data(), "postmaster.pid")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return c.run(context.Background(), "pg_ctl", "--pgdata", c.data(), "--wait", "--mode", "fast", "stop")
}

// run executes a program of PostgreSQL. Its output goes to a file: the server inherits it, and a pipe would not end.
func (c *cluster) run(ctx context.Context, name string, args ...string) error {
	out, err := os.OpenFile(filepath.Join(c.dir, "output"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir // an unprivileged user may not be allowed into the current one
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = out, out
	c.who.lend(cmd)
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name()) // the error says enough without
		return fmt.Errorf("pgtest: %s: %w\n%s", name, err, text)
	}
	return nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err = errors.Join(err, l.Close()); err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}
