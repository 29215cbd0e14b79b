package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const noBouncer = "PgBouncer is missing, so nothing was tested through it: install it (apt-get install pgbouncer)"

// StartBouncer starts PgBouncer in transaction mode before the server of a DSN, with fewer connections to the server
// than a client has, and returns the DSN through it. It ends with the test.
func StartBouncer(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skipf("PgBouncer needs a DSN like postgres://host:5432/database: %v", err)
	}
	bin, err := bouncer()
	if err != nil {
		t.Skip(noBouncer)
	}
	dir, err := os.MkdirTemp("", "pawl-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	who, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	if who != nil {
		if err := os.Chown(dir, who.uid, who.gid); err != nil {
			t.Fatal(err)
		}
	}
	port, err := freePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s password=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"+
		"listen_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n"+
		"server_round_robin = 1\nlog_connections = 0\nlog_disconnections ="+
		" 0\n", u.Hostname(), u.Port(), u.User.Username(), password, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // the other user reads it
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), bin, config)
	cmd.Dir = dir
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	who.use(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("PgBouncer: %s", log.String())
		}
	})
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := reachable(t.Context(), u.Host); err != nil {
		t.Fatalf("PgBouncer does not listen: %v", err)
	}
	return u.String()
}

func bouncer() (string, error) {
	bin, err := exec.LookPath("pgbouncer")
	if errors.Is(err, exec.ErrNotFound) {
		return exec.LookPath("/usr/sbin/pgbouncer") // not in everybody's PATH
	}
	return bin, err
}

// reachable waits until a server listens.
func reachable(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		if ctx.Err() != nil {
			return err
		}
	}
}
