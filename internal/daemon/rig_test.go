package daemon_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/daemon"
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/daemon/folder"
	"github.com/pawl-dev/pawl/internal/daemon/workflows"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
	"github.com/pawl-dev/pawl/internal/kind"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// double is a flow whose runs end with a text of their own input.
const double = `pawl: 1
name: double
steps:
  - {name: work, exec: {command: ["true"]}}
output: "${{ input.n }}${{ input.n }}"
`

// rig has what the daemons of a test are made of.
type rig struct {
	*testing.T
	flows *folder.Folder
	store *workflows.Store
}

func newRig(t *testing.T) rig {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"double.yaml", "blue/double.yaml"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
		ok(t, os.WriteFile(path, []byte(double), 0o600))
	}
	store := new(workflows.Store)
	return rig{t, folder.New(dir, store, false), store}
}

// quiet is the log of nodes.
var quiet = slog.New(slog.DiscardHandler)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// config returns the configuration of a server on a database.
func (r rig) config(p database.Place) daemon.Config {
	r.Helper()
	j, err := p.Open(r.Context())
	ok(r.T, err)
	return daemon.Config{
		Journal: j, Paths: p, Namespace: p.Namespace, Work: true, Plugins: []kind.Plugin{r.store.Plugin()},
		Read: r.store.Read, Slots: 2, Bodies: true, Owner: "a test",
		Flows: func(served func(string) (journal.Definition, error)) (server.Flows, api.Catalog) {
			flows := r.flows.Over(p.Namespace, workflows.Applied(j), served)
			return flows, flows.Catalog()
		},
	}
}

// open opens the daemon of a configuration. It is shut down when the test ends.
func (r rig) open(cfg daemon.Config) *daemon.Daemon {
	r.Helper()
	d, err := daemon.New(cfg)
	ok(r.T, err)
	err = d.Open(r.Context())
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			r.Error(err)
		}
	})
	ok(r.T, err)
	return d
}

// reach makes a daemon listen, and returns a client of it.
func (r rig) reach(d *daemon.Daemon) *httpapi.Client {
	r.Helper()
	l := memnet.Listen()
	d.Listen(l, nil)
	c := httpapi.Over("the server", func(ctx context.Context) (net.Conn, error) { return l.Dial(ctx, "", "") })
	r.Cleanup(c.Close)
	return c
}

// doubles starts the flow by its name, and waits for the result.
func (r rig) doubles(c *httpapi.Client, id string) {
	r.Helper()
	started, err := c.StartNamed(r.Context(), "double", api.StartRequest{WorkflowID: id, Input: []byte(`{"n":4}`)})
	ok(r.T, err)
	out, err := c.Wait(r.Context(), started.Run)
	if err != nil || string(out.Output) != `"44"` {
		r.Errorf("run %s has the result %s, %v", id, out.Output, err)
	}
}

// sees reports whether a run with a workflow id is there.
func (r rig) sees(c *httpapi.Client, id string) bool {
	r.Helper()
	_, err := c.Run(r.Context(), id)
	if err != nil && api.CodeOf(err) != api.CodeNotFound {
		r.Fatal(err)
	}
	return err == nil
}

func init() {
	database.Register(database.Driver{
		Open: postgres.OpenSeen, OpenReadOnly: postgres.OpenReadOnlySeen, Key: postgres.Key,
	})
}
