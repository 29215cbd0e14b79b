package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestPromoted kills the primary server of the database under two nodes, and promotes its synchronous standby. Every
// run that was acknowledged is there, once, and ends. Then the old primary is back and takes writes, at the address
// that is tried first: nodes that are started again, and new ones that have seen nothing themselves, work with the new
// one.
func TestPromoted(t *testing.T) {
	nightly.Only(t, "two database servers, one takes over")
	t.Parallel()
	primary := pgtest.StartServer(t, "-c", "synchronous_standby_names=walreceiver")
	standby := primary.Standby()
	standby.Set("-c", "synchronous_standby_names=")
	b := nodesBedOn(t, twoServers(t, primary, standby), primary.Lease())
	first, atA := b.node()
	_, atB := b.node()
	b.await(3, 3)
	ids := b.keyed(atA, 12)
	primary.Kill()
	began := time.Now()
	standby.Promote()
	if again := b.keyed(atB, 12); !slices.Equal(again, ids) {
		t.Errorf("the runs %v were acknowledged, now they are %v", ids, again)
	}
	t.Logf("the nodes found all runs %s after the primary was killed", time.Since(began))
	b.ends(atB, ids)
	b.ends(atA, b.start(atB, "after", 6))

	primary.Set("-c", "synchronous_standby_names=")
	primary.Replace(primary)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait() // killed
	_, atA = b.node()
	stranger := b.command()
	stranger.Env = append(stranger.Env, "XDG_STATE_HOME="+t.TempDir())
	_, atC := b.nodeBy(stranger, "")
	b.await(2, 2, 2)
	for _, c := range []*httpapi.Client{atA, atC} {
		if again := b.keyed(c, 12); !slices.Equal(again, ids) {
			t.Errorf("the runs %v were acknowledged, with the old primary back they are %v", ids, again)
		}
	}
	b.ends(atC, b.start(atA, "later", 6))
	b.pawl("doctor")
	alone := *b
	alone.database = primary.DSN() + "&" + primary.Lease()
	out, err := alone.command(append([]string{"server"}, alone.flags("secret")...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "this database went back (") {
		t.Errorf("a node on the old primary alone: %v %s", err, out)
	}
}

// twoServers returns the address of a database that has a standby, whichever of the two is the primary.
func twoServers(t *testing.T, primary, standby *pgtest.Server) string {
	t.Helper()
	both, err := url.Parse(primary.DSN())
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(standby.DSN())
	if err != nil {
		t.Fatal(err)
	}
	both.Host += "," + second.Host
	return both.String() + "&target_session_attrs=read-write"
}

// keyed starts runs with the keys 0, 1, … through one node: the same runs, however often.
func (b *nodesBed) keyed(c *httpapi.Client, n int) (ids []string) {
	b.Helper()
	for i := range n {
		ids = append(ids, b.sent(c, "work", api.StartRequest{Key: fmt.Sprint(i)}))
	}
	return ids
}

const heldFlow = `pawl: 1
name: held
steps:
  - name: work
    exec: [sh, -c, "echo $PAWL_RUN_ID >> begun; until test -e go; do sleep 0.05; done"]
  - name: nap
    sleep: 2s
`

// TestRestored goes back to a copy of the database that was made while a step ran. The run has ended since then; in the
// copy it has not. Its attempt is made again, a deadline that has passed meanwhile fires at once, and what was started
// after the copy is gone.
func TestRestored(t *testing.T) {
	nightly.Only(t, "two database servers, one is restored")
	t.Parallel()
	b, server := newNodesBed(t)
	write(t, filepath.Join(b.dir, "flows"), "held.yaml", heldFlow)
	first, c := b.node()
	napping := b.start(c, "napping", 3)
	held, err := c.StartNamed(t.Context(), "held", api.StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	begun := func(n int) {
		t.Helper()
		for end := time.Now().Add(patience); time.Now().Before(end); {
			text, _ := os.ReadFile(filepath.Join(b.dir, "begun")) // it is not there at first
			if strings.Count(string(text), "\n") >= n {
				return
			}
		}
		t.Fatalf("the step has not begun %d times", n)
	}
	begun(1)
	restored := server.Copy()
	write(t, b.dir, "go", "")
	b.ends(c, append([]string{held.Run}, napping...))
	late := b.start(c, "late", 1)
	b.ends(c, late)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait() // killed
	server.Kill()
	restored.Replace(server)
	if err := os.Remove(filepath.Join(b.dir, "go")); err != nil {
		t.Fatal(err)
	}
	refused := b.command(append([]string{"server"}, b.flags("secret")...)...)
	out, err := refused.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "this database went back (partition ") {
		t.Fatalf("a node on a restored database: %v %s", err, out)
	}
	if said := b.pawl("cluster", "accept"); !strings.Contains(said, "lost: partition ") ||
		!strings.Contains(said, late[0]) || !strings.Contains(said, "accepted as generation 1") {
		t.Errorf("accepted: %s", said)
	}
	if said := b.pawl("audit"); !strings.Contains(said, "/cluster/generation/1") {
		t.Errorf("the audit log: %s", said)
	}
	_, c = b.node()
	begun(2)
	write(t, b.dir, "go", "")
	b.ends(c, append([]string{held.Run}, napping...))
	if _, err := c.Run(t.Context(), late[0]); err == nil {
		t.Error("a run that was started after the copy is in it")
	}
	b.pawl("doctor")
}
