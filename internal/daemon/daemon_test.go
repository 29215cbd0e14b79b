package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/cluster/share"
	"github.com/pawl-dev/pawl/internal/cluster/wire"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/pgtest"
	_ "github.com/pawl-dev/pawl/journal/memory"
	"github.com/pawl-dev/pawl/pawlhttp"
)

// TestServer checks a whole server: callers from the network need a token, a namespace has runs of its own, and other
// commands of the machine reach it by the socket beside its file.
func TestServer(t *testing.T) {
	r := newRig(t)
	p := database.Place{Path: filepath.Join(t.TempDir(), "p.db")}
	cfg := r.config(p)
	cfg.Guarded = true
	d := r.open(cfg)
	places, err := p.Namespaces("namespaces", []string{"blue"})
	ok(t, err)
	blue := r.config(places[0])
	blue.Guarded = true
	ok(t, d.Add(t.Context(), blue))

	c := r.reach(d)
	if _, err := c.Stats(t.Context()); api.CodeOf(err) != api.CodeNoToken {
		t.Errorf("without a token: %v", err)
	}
	token, err := d.Access().CreateToken(t.Context(), api.TokenRequest{Name: "ada", Role: "operate", Namespace: "*"})
	ok(t, err)
	ok(t, c.Show(token.Token, nil))
	r.doubles(c, "one")
	c.In("blue")
	if r.sees(c, "one") {
		t.Error("a namespace has the runs of another one")
	}
	r.doubles(c, "two")
	beside := p.Join(t.Context())
	if beside == nil {
		t.Fatal("nobody answers at the socket")
	}
	defer beside.Close()
	r.doubles(beside, "three")
	if r.sees(beside, "two") {
		t.Error("the default namespace has the runs of another one")
	}
	if !r.sees(beside, "one") {
		t.Error("the socket leads elsewhere")
	}
}

// greeting is a protocol of one line.
type greeting struct {
	service api.Service
	closed  chan struct{}
}

// Serve implements daemon.Protocol. It tells how many runs there are.
func (g greeting) Serve(l net.Listener) error {
	go func() { <-g.closed; _ = l.Close() }()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		page, err := g.service.Runs(context.Background(), api.Query{})
		_, _ = fmt.Fprintln(conn, len(page.Runs), err)
		_ = conn.Close()
	}
}

func (g greeting) Shutdown(context.Context) error { return g.Close() }

func (g greeting) Close() error {
	select {
	case <-g.closed:
	default:
		close(g.closed)
	}
	return nil
}

// failing is a protocol that ends by itself.
type failing struct{ greeting }

func (failing) Serve(l net.Listener) error { return errors.Join(errors.New("no more"), l.Close()) }

// TestProtocols checks that another protocol is one more listener, which ends with the daemon, and that the end of one
// by itself is told.
func TestProtocols(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(database.Place{Memory: true}))
	r.doubles(r.reach(d), "one")
	l := memnet.Listen()
	d.Listen(l, greeting{d.Service(), make(chan struct{})})
	conn, err := l.Dial(t.Context(), "", "")
	ok(t, err)
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "1 <nil>\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	d.Listen(memnet.Listen(), failing{greeting{closed: make(chan struct{})}})
	if err := <-d.Ended(); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Error(err)
	}
}

// TestCluster checks that two daemons share a database, and that each answers for the runs of both, also when the other
// one has left.
func TestCluster(t *testing.T) {
	r := newRig(t)
	p, err := database.Parse("database", pgtest.Start(t)+"&schema=daemon_cluster&partitions=4&lease=20s")
	ok(t, err)
	keys, err := wire.NewKeys([]byte(strings.Repeat("s", 32)))
	ok(t, err)
	var all []*daemon.Daemon
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ok(t, err)
		cfg := r.config(p)
		node := share.New(share.Config{Keys: keys, Version: "test", Log: quiet})
		cfg.Cluster = &daemon.Cluster{Node: node, Listener: l}
		all = append(all, r.open(cfg))
	}
	first, second := r.reach(all[0]), r.reach(all[1])
	for i := range 8 {
		r.doubles(first, fmt.Sprint("first-", i))
		r.doubles(second, fmt.Sprint("second-", i))
	}
	ok(t, all[1].Leave(t.Context()))
	for i := range 8 {
		if !r.sees(first, fmt.Sprint("second-", i)) {
			t.Errorf("run %d of the node that has left is gone", i)
		}
	}
	r.doubles(first, "alone")
}

// TestProgram checks the server of a Go program: the daemon has the program's engine.
func TestProgram(t *testing.T) {
	twice := pawl.Define("twice", func(_ pawl.Context, n int) (int, error) { return 2 * n, nil })
	e, err := pawl.Open(t.Context(), pawl.Config{Database: "memory:", Workflows: []pawl.Definition{twice}})
	ok(t, err)
	defer func() { ok(t, e.Close()) }()
	s := httptest.NewServer(pawlhttp.Handler(e, nil))
	defer s.Close()
	c, err := pawlhttp.Connect(s.URL, pawlhttp.ClientConfig{})
	ok(t, err)
	defer c.Close()
	run, err := twice.Start(t.Context(), c, "one", 4)
	ok(t, err)
	if n, err := run.Result(t.Context()); n != 8 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestNewFails checks that a daemon that cannot be made closes its database.
func TestNewFails(t *testing.T) {
	r := newRig(t)
	p := database.Place{Path: filepath.Join(t.TempDir(), "p.db")}
	keys, err := wire.NewKeys([]byte(strings.Repeat("s", 32)))
	ok(t, err)
	cfg := r.config(p)
	cfg.Cluster = &daemon.Cluster{Node: share.New(share.Config{Keys: keys, Log: quiet})}
	if _, err := daemon.New(cfg); err == nil || !strings.Contains(err.Error(), "only a database in PostgreSQL") {
		t.Errorf("a file that is shared: %v", err)
	}
	r.open(r.config(p)) // nobody holds it
}
