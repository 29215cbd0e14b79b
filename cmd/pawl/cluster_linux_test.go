package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// nodesBed is a cluster of real processes on a PostgreSQL server of its own.
type nodesBed struct {
	*testing.T
	dir, database, token string
	more                 []string // flags of the nodes
	env                  []string // variables of every command, beside those of the tests
}

const workFlow = `pawl: 1
name: work
steps:
  - name: first
    exec: "true"
    retry: {maxAttempts: 20, initialInterval: 10ms, backoffCoefficient: 1}
  - name: nap
    needs: [first]
    sleep: 1s
  - name: second
    needs: [nap]
    exec: "true"
    retry: {maxAttempts: 20, initialInterval: 10ms, backoffCoefficient: 1}
`

const askFlow = `pawl: 1
name: ask
steps:
  - name: answer
    task: {queue: q, type: Answer}
`

func newNodesBed(t *testing.T) (*nodesBed, *pgtest.Server) {
	t.Helper()
	server := pgtest.StartServer(t)
	return nodesBedOn(t, server.DSN(), server.Lease()), server
}

func nodesBedOn(t *testing.T, dsn, lease string) *nodesBed {
	t.Helper()
	b := &nodesBed{T: t, dir: t.TempDir(), database: dsn + "&partitions=6&" + lease}
	write(t, b.dir, "secret", strings.Repeat("ab", 32))
	write(t, b.dir, "other", strings.Repeat("cd", 32))
	if err := os.Mkdir(filepath.Join(b.dir, "flows"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.dir, "flows"), "work.yaml", workFlow)
	write(t, filepath.Join(b.dir, "flows"), "ask.yaml", askFlow)
	b.token = strings.TrimSpace(b.pawl("token", "create", "ada", "--role", "admin"))
	return b
}

// pawl runs a command on the database, and returns what it prints.
func (b *nodesBed) pawl(args ...string) string {
	b.Helper()
	cmd := b.command(append(args, "--database", b.database)...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v: %v %s", args, err, failed.String())
	}
	return string(out)
}

func (b *nodesBed) command(args ...string) *exec.Cmd {
	b.Helper()
	cmd := command(b.T, b.dir, args...)
	cmd.Env = append(cmd.Env, b.env...)
	return cmd
}

func (b *nodesBed) flags(secret string) []string {
	return append([]string{
		"flows", "--database", b.database, "--cluster-listen", "127.0.0.1:0", "--cluster-secret-file", secret,
		"--webhook-allow", "127.0.0.1",
	}, b.more...)
}

// node starts a node, with a client of it. Additional flags come last.
func (b *nodesBed) node(flags ...string) (*process, *httpapi.Client) {
	b.Helper()
	return b.nodeBy(b.command(), "", flags...)
}

// nodeBy starts a node as node does, by a given command and at a given address; an empty address stands for any.
func (b *nodesBed) nodeBy(cmd *exec.Cmd, address string, flags ...string) (*process, *httpapi.Client) {
	b.Helper()
	p := launch(b.T, cmd, append(b.flags("secret"), flags...)...)
	if address != "" {
		p.address = "http://" + address
	}
	p.told("READY=1")
	c, err := httpapi.New(p.address)
	if err == nil {
		err = c.Show(b.token, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return p, c
}

// await waits until the nodes that are alive have so many partitions each, from the most to the fewest.
func (b *nodesBed) await(shares ...int) (status api.ClusterStatus) {
	b.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		status = api.ClusterStatus{}
		if err := json.Unmarshal([]byte(b.pawl("cluster", "status", "-o", "json")), &status); err != nil {
			b.Fatal(err)
		}
		if sharesAre(status, shares) {
			return status
		}
	}
	b.Fatalf("the shares never became %v: %+v", shares, status)
	return status
}

// sharesAre reports whether the nodes that are alive have so many partitions each, and no partition is free.
func sharesAre(status api.ClusterStatus, shares []int) bool {
	left := append([]int{}, shares...)
	for _, n := range status.Nodes {
		for i, share := range left {
			if n.State == "alive" && len(n.Partitions) == share {
				left = append(left[:i], left[i+1:]...)
				break
			}
		}
	}
	return len(left) == 0 && len(status.Free) == 0
}

// start starts runs through one node.
func (b *nodesBed) start(c *httpapi.Client, name string, n int) (ids []string) {
	b.Helper()
	for i := range n {
		r := api.StartRequest{WorkflowID: fmt.Sprintf("%s-%d", name, i), UseExisting: true}
		ids = append(ids, b.sent(c, "work", r))
	}
	return ids
}

// sent starts a run. A start that failed is sent again: its name makes it the same run.
func (b *nodesBed) sent(c *httpapi.Client, flow string, r api.StartRequest) string {
	b.Helper()
	var out api.Started
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if out, err = c.StartNamed(b.Context(), flow, r); err == nil {
			return out.Run
		}
	}
	b.Fatal(err)
	return ""
}

// ends waits through one node until all runs have succeeded. A task that was lost on its way to its worker is given out
// again after a minute.
func (b *nodesBed) ends(c *httpapi.Client, ids []string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience+2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			var out api.Outcome
			var err error
			for ctx.Err() == nil {
				if out, err = c.Wait(ctx, id); err == nil {
					break
				}
			}
			if err != nil || out.Phase != api.RunSucceeded {
				history, _ := c.History(b.Context(), id)
				b.Errorf("run %s: %v, %v; %s", id, out.Phase, err, history)
			}
		})
	}
	all.Wait()
}

// works starts runs through one node, and does their tasks as a worker that knows another one only. That goes on over
// errors, as workers do: partitions may be on their way.
func (b *nodesBed) works(start, work *httpapi.Client) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		for ctx.Err() == nil {
			tasks, err := work.Poll(ctx, api.PollRequest{Queue: "q", Max: 3, Wait: api.Duration(5 * time.Second)})
			if err != nil {
				continue
			}
			for _, task := range tasks {
				report := api.TaskReport{Task: task.Task, Kind: api.TaskComplete, Output: []byte("1")}
				for ctx.Err() == nil {
					if _, err := work.Report(ctx, []api.TaskReport{report}); err == nil {
						break
					}
				}
			}
		}
	})
	var ids []string
	for i := range 12 { // enough that very probably every partition has some
		ids = append(ids, b.sent(start, "ask", api.StartRequest{WorkflowID: fmt.Sprint("ask-", i), UseExisting: true}))
	}
	b.ends(start, ids)
	cancel()
	worker.Wait()
}

// metric reads a number of a node.
func (b *nodesBed) metric(p *process, name string) string {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, p.address+"/metrics", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `\{[^}]*\} (\S+)$`).FindSubmatch(text)
	if m == nil {
		b.Fatalf("there is no %s: %s", name, text)
	}
	return string(m[1])
}

const mutexFlow = `pawl: 1
name: mutex
services:
  printer: {limits: {concurrency: 1}}
steps:
  - name: print
    service: printer
    exec: [sleep, "600"]
`

// TestHeldInACluster checks that the explanation of a run that a limit holds says that each node counts its own.
func TestHeldInACluster(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	write(t, filepath.Join(b.dir, "flows"), "mutex.yaml", mutexFlow)
	_, c := b.node()
	b.await(6)
	runs := []string{b.sent(c, "mutex", api.StartRequest{}), b.sent(c, "mutex", api.StartRequest{})}
	held := func() *api.Step {
		for _, id := range runs {
			r, err := c.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Steps) > 0 && r.Steps[0].Held != nil {
				return r.Steps[0]
			}
		}
		return nil
	}
	for end := time.Now().Add(patience); held() == nil; {
		if time.Now().After(end) {
			t.Fatal("neither of two runs is held")
		}
	}
	const want = "held by service printer: its concurrency is used up; each node counts its own"
	if got := held().Held.Why; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// countsPartitions checks that one of three nodes counts what it owns, and what it has taken and given back: 6 and 4,
// and more if its machine was so busy that it has lost leases.
func (b *nodesBed) countsPartitions(a *process) {
	b.Helper()
	owned, moves, logged := "", "", 0
	for end := time.Now().Add(patience); time.Now().Before(end); { // moves are counted before they are logged
		owned, moves = b.metric(a, "pawl_partitions_owned"), b.metric(a, "pawl_partition_moves_total")
		a.log.mu.Lock()
		log := a.log.text.String()
		a.log.mu.Unlock()
		logged = strings.Count(log, `"took a partition"`) + strings.Count(log, `"gave a partition back"`)
		if owned == "2" && logged >= 10 && moves == fmt.Sprint(logged) {
			return
		}
	}
	b.Errorf("%s partitions and %s moves are counted, %d moves are logged; it has 2, took 6 and gave 4 back", owned,
		moves, logged)
}

// TestCluster works with three nodes while one is killed, one is stopped past its leases, the database is restarted and
// one leaves. Any node answers about any run, and every run that was acknowledged ends.
func TestCluster(t *testing.T) {
	t.Parallel()
	b, server := newNodesBed(t)
	a, atA := b.node()
	a.log.await(t, "limits of queues and services are counted by each node")
	b.await(6)
	second, atB := b.node()
	_, atC := b.node()
	b.await(2, 2, 2)
	ids := b.start(atA, "calm", 12)
	b.ends(atB, ids)
	if r, err := atC.Run(t.Context(), "calm-3"); err != nil || r.Run != ids[3] {
		t.Errorf("a run found by its workflow id: %+v, %v", r, err)
	}

	b.works(atA, atC)
	b.countsPartitions(a)

	ids = b.start(atB, "killed", 12)
	began := time.Now()
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.await(3, 3)
	t.Logf("a killed node's partitions were taken after %s", time.Since(began))
	b.ends(atC, ids)

	third, atD := b.node()
	b.await(2, 2, 2)
	ids = b.start(atC, "stopped", 12)
	if err := third.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.await(3, 3)
	if err := third.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.ends(atA, ids)
	b.await(2, 2, 2)
	b.ends(atD, b.start(atD, "again", 6))

	ids = b.start(atA, "restart", 12)
	server.Restart("immediate")
	b.ends(atC, ids)

	b.await(2, 2, 2)
	ids = b.start(atA, "leaving", 12)
	began = time.Now()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.await(3, 3)
	t.Logf("a node's partitions were with the others %s after SIGTERM", time.Since(began))
	b.ends(atD, ids)
}

// TestMovedPartition moves partitions to a node, which then has more than its share, while runs go on. A drained node
// gives them back, and gets them again. When it leaves, nothing is said of it any more.
func TestMovedPartition(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	_, atA := b.node()
	first := b.await(6).Nodes[0].ID
	second, atB := b.node()
	status := b.await(3, 3)
	target := status.Nodes[0].ID
	if target == first {
		target = status.Nodes[1].ID
	}
	ids := b.start(atA, "moved", 12)
	for p := range 5 {
		b.pawl("cluster", "move", fmt.Sprint(p), target)
	}
	status = b.await(5, 1)
	if len(status.Pinned) != 5 || status.Pinned[0] != target {
		t.Errorf("%+v", status)
	}
	b.ends(atB, ids)

	if err := atB.Drain(t.Context(), api.NodeDrain{Node: target}); err != nil {
		t.Fatal(err)
	}
	b.await(6)
	cmd := command(t, b.dir, "cluster", "move", "5", target, "--database", b.database)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "gives its partitions back") {
		t.Errorf("%v: %s", err, out)
	}
	err := atA.Move(t.Context(), api.PartitionMove{Partition: 5, Node: target})
	if api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "gives its partitions back") {
		t.Errorf("through a node: %v", err)
	}
	b.pawl("cluster", "drain", target, "--undo")
	b.await(5, 1)
	if asked, err := atA.Cluster(t.Context()); err != nil || len(asked.Nodes) != 2 || len(asked.Pinned) != 5 {
		t.Errorf("%+v, %v", asked, err)
	}

	b.pawl("cluster", "move", "0", "--undo")
	if err := atB.Move(t.Context(), api.PartitionMove{Partition: 1, Undo: true}); err != nil {
		t.Fatal(err)
	}
	b.await(3, 3)
	if err := second.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status = b.await(6); len(status.Pinned) != 0 || status.Nodes[0].ID != first {
		t.Errorf("%+v", status)
	}
	b.ends(atA, b.start(atA, "after", 6))
}

// TestForeignSecret refuses a node with another secret than that of the cluster, and whoever is no node.
func TestForeignSecret(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	_, c := b.node()
	status, err := c.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const says = "nodes share this database: ask one of them with --server URL, or start another one with --cluster-l"
	b.await(6)
	refusedBy(t, b.command("run", "flows/work.yaml", "--database", b.database), says)
	refusedBy(t, b.command("server", "flows", "--listen", "127.0.0.1:0", "--database", b.database), says)
	taken := append([]string{"server", "--listen", "127.0.0.1:0"}, b.flags("secret")...)
	refusedBy(t, b.command(append(taken, "--cluster-listen", status.Nodes[0].Address)...),
		"another program may use the port: choose another one with --cluster-listen")
	other := launchServer(t, b.dir, b.flags("other")...)
	other.log.await(t, "the database belongs to another cluster: the node .* has another secret; give this one")
}
