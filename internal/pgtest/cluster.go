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
	"time"
)

const (
	// Given is the environment variable with the DSN of a database to use in place of a throw-away cluster.
	Given = "PAWL_TEST_POSTGRES"
	// Required is the environment variable that, set to 1, makes tests fail instead of skip if PostgreSQL is missing.
	Required = "PAWL_REQUIRE_POSTGRES"
)

const missing = "PostgreSQL is missing, so nothing was tested against it: install it (apt-get install postgresql, " +
	"brew install postgresql, dnf install postgresql-server), or set " + Given + " to the DSN of a database to test in"

// Start starts a cluster of the installed version and returns a superuser's DSN. The cluster is stopped and removed
// when the test ends. If PAWL_TEST_POSTGRES is set, Start returns that DSN instead; after Share, that of the cluster
// that all tests of the package share. Tests must therefore work in a schema of their own.
func Start(t testing.TB) (dsn string) {
	t.Helper()
	if dsn := os.Getenv(Given); dsn != "" {
		return dsn
	}
	if sharing {
		return sharedServer(t)
	}
	return StartServer(t).DSN()
}

// Server is a cluster that a test may restart.
type Server struct {
	t testing.TB
	c cluster
}

// DSN returns a superuser's DSN. It stays the same when the server is restarted.
func (s *Server) DSN() string { return s.c.dsn() }

// Lease returns the setting of a lease that nodes can keep on this machine at its present speed: a second, and more if
// it took longer than that to make the server's files, which a quiet machine does in about that time.
func (s *Server) Lease() string { return s.c.lease() }

func (c *cluster) lease() string {
	return fmt.Sprintf("lease=%dms", max(time.Second, c.made).Milliseconds())
}

// Restart stops the server as pg_ctl does in a mode, "fast" or "immediate", and starts it again. Immediate is as a
// crash: nothing is written before the end.
func (s *Server) Restart(mode string) {
	s.t.Helper()
	ctx := s.t.Context()
	err := s.c.run(ctx, "pg_ctl", "--pgdata", s.c.data(), "--wait", "--mode", mode, "stop")
	if err == nil {
		err = s.c.startOn(ctx, s.c.port)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// StartServer starts a cluster of the installed version, also where PAWL_TEST_POSTGRES is set. It is stopped and
// removed when the test ends. The server may have additional settings, such as "-c", "max_connections=5".
func StartServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t}
	t.Cleanup(func() {
		if err := s.c.remove(); err != nil {
			t.Error(err)
		}
	})
	s.c.launch(t, settings...)
	return s
}

// launch makes and starts a cluster, or skips the test.
func (c *cluster) launch(t testing.TB, settings ...string) {
	t.Helper()
	bin, ok := binaries(t.Context())
	if !ok {
		if os.Getenv(Required) == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	// t.TempDir cannot be used: its path contains the test's name and may be too long for a socket, and other users may
	// not read it.
	dir, err := os.MkdirTemp("", "pawl-pg-")
	if err != nil {
		t.Fatal(err)
	}
	*c = cluster{bin: bin, dir: dir, password: rand.Text(), settings: settings}
	begun := time.Now()
	if c.who, err = unprivileged(); err == nil {
		err = c.create(t.Context())
	}
	c.made = time.Since(begun)
	if err == nil {
		err = c.start(t.Context())
	}
	if err != nil {
		t.Fatal(errors.Join(err, c.remove()))
	}
}

// binaries finds the folder with the server's programs. Many distributions do not put it into PATH.
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
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // no error: the pattern is valid
	slices.Reverse(installed)                                  // newer versions first
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
	who      *account // nil: the user that runs the test
	password string   // needed because every user of the machine can connect to the loopback address
	port     int
	settings []string      // settings of the server, as its command line has them
	made     time.Duration // how long it took to make the server's files
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
	// --no-sync only makes the creation of the cluster faster. The server itself syncs as it does by default.
	return c.run(ctx, "initdb", "--pgdata", c.data(), "--username", "pawl", "--pwfile",
		secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
}

// start starts the server on a port that was free a moment ago. If another program took the port, it tries another one.
func (c *cluster) start(ctx context.Context) error {
	var failed error
	for range 3 {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		if err = c.startOn(ctx, port); err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (c *cluster) startOn(ctx context.Context, port int) error {
	c.port = port
	options := fmt.Sprintf("-c listen_addresses=127.0.0.1 -c port=%d -c unix_socket_directories='%s' %s", c.port, c.dir,
		strings.Join(c.settings, " "))
	err := c.run(ctx, "pg_ctl", "--pgdata", c.data(), "--log", c.log(), "--wait", "--options", options, "start")
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(c.log()) // fails if there is no log yet
	return fmt.Errorf("%w\n%s", err, text)
}

// stop stops the server and waits until it has ended. A server that never started is not an error.
func (c *cluster) stop() error {
	if _, err := os.Stat(filepath.Join(c.data(), "postmaster.pid")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return c.run(context.Background(), "pg_ctl", "--pgdata", c.data(), "--wait", "--mode", "fast", "stop")
}

// remove stops the server and removes everything that it has written.
func (c *cluster) remove() error {
	if c.dir == "" {
		return nil
	}
	return errors.Join(c.stop(), os.RemoveAll(c.dir))
}

// run executes a program of PostgreSQL. The output goes to a file, not to a pipe: the server inherits the output and
// would keep the pipe open.
func (c *cluster) run(ctx context.Context, name string, args ...string) error {
	out, err := os.OpenFile(filepath.Join(c.dir, "output"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir // the unprivileged user may have no access to the current folder
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = out, out
	c.who.use(cmd)
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name()) // the error is useful without it, too
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

// free reports whether no process listens on a port.
func free(ctx context.Context, port int) bool {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}

// Folder makes a folder that belongs to the server, such as for a tablespace.
func (s *Server) Folder(path string) {
	s.t.Helper()
	err := os.Mkdir(path, 0o700)
	if err == nil && s.c.who != nil {
		err = os.Chown(path, s.c.who.uid, s.c.who.gid)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Admit allows users to connect from a network, such as 10.0.0.0/24, if the server listens there. A standby and a copy
// that are made later do the same.
func (s *Server) Admit(network string) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.c.data(), "pg_hba.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = fmt.Fprintln(f, "host all all", network, "scram-sha-256")
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = s.c.run(s.t.Context(), "pg_ctl", "--pgdata", s.c.data(), "reload")
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
