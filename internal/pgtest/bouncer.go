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
	"syscall"
	"testing"
	"time"
)

const noBouncer = "PgBouncer is missing, so nothing was tested through it: install it (apt-get install pgbouncer)"

// Bouncer is PgBouncer in transaction mode before a server.
type Bouncer struct {
	t      testing.TB
	cmd    *exec.Cmd
	config string // the path of its file
	dsn    *url.URL
	port   int
}

// StartBouncer starts PgBouncer in transaction mode before the server of a DSN, with fewer connections to the server
// than a client has, and returns the DSN through it. It ends with the test.
func StartBouncer(t testing.TB, dsn string) string { return NewBouncer(t, dsn).DSN() }

// NewBouncer starts one likewise.
func NewBouncer(t testing.TB, dsn string) *Bouncer {
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
	b := &Bouncer{t: t, config: filepath.Join(dir, "pgbouncer.ini")}
	if b.port, err = freePort(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.write(u)
	b.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), bin, b.config)
	b.cmd.Dir = dir
	var log strings.Builder
	b.cmd.Stdout, b.cmd.Stderr = &log, &log
	who.use(b.cmd)
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait() // killed
		if t.Failed() {
			t.Logf("PgBouncer: %s", log.String())
		}
	})
	to := *u
	to.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port))
	b.dsn = &to
	if err := reachable(t.Context(), to.Host); err != nil {
		t.Fatalf("PgBouncer does not listen: %v", err)
	}
	return b
}

// write writes the settings for the server of a DSN.
func (b *Bouncer) write(u *url.URL) {
	b.t.Helper()
	password, _ := u.User.Password()
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s password=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"+
		"listen_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 4\n"+
		"server_round_robin = 1\nserver_login_retry = 1\nlog_connections = 0\nlog_disconnections ="+
		" 0\n", u.Hostname(), u.Port(), u.User.Username(), password, b.port)
	if err := os.WriteFile(b.config, []byte(text), 0o644); err != nil { //nolint:gosec // the other user reads it
		b.t.Fatal(err)
	}
}

// DSN returns the DSN through it.
func (b *Bouncer) DSN() string { return b.dsn.String() }

// Turn makes it use the server of another DSN from its next transactions on. The connections of its clients stay.
func (b *Bouncer) Turn(dsn string) {
	b.t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	b.write(u)
	if err := b.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		b.t.Fatal(err)
	}
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
