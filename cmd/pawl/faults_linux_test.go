package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// Environment variables of TestMixedFaults.
const (
	faultsFor  = "PAWL_TEST_FAULTS_FOR"  // a duration, such as 10m, in the place of 15s
	faultsSeed = "PAWL_TEST_FAULTS_SEED" // the seed that a run has printed
)

const traceFlow = `pawl: 1
name: trace
steps:
  - name: first
    exec: [sh, -c, "echo $PAWL_RUN_ID $PAWL_STEP $PAWL_ATTEMPT >> trace"]
    retry: {maxAttempts: 20, initialInterval: 10ms, backoffCoefficient: 1}
  - name: nap
    needs: [first]
    sleep: 500ms
  - name: second
    needs: [nap]
    exec: [sh, -c, "echo $PAWL_RUN_ID $PAWL_STEP $PAWL_ATTEMPT >> trace"]
    retry: {maxAttempts: 20, initialInterval: 10ms, backoffCoefficient: 1}
`

// faultsBed is a cluster whose nodes reach the database each through a proxy of its own.
type faultsBed struct {
	*nodesBed
	server *pgtest.Server
	nodes  []*faultyNode
	dice   *rand.Rand
	runs   map[string]string // by their keys
	traces map[string]int    // the last attempt of each run and step when the run was reported finished
}

type faultyNode struct {
	p     *process
	c     *httpapi.Client
	proxy *pgtest.Proxy
}

func (b *faultsBed) join() *faultyNode {
	b.Helper()
	n := &faultyNode{proxy: pgtest.NewProxy(b.T, b.database)}
	direct := b.database
	b.database = n.proxy.DSN()
	n.p, n.c = b.node()
	b.database = direct
	return n
}

// load starts runs through one node, each with a key of its own.
func (b *faultsBed) load(n *faultyNode, count int) (ids []string) {
	b.Helper()
	for range count {
		key := fmt.Sprint(len(b.runs))
		id := b.sent(n.c, "trace", api.StartRequest{Key: key})
		b.runs[key] = id
		ids = append(ids, id)
	}
	return ids
}

// attempts reads the last attempt of each run and step that was executed.
func (b *faultsBed) attempts() map[string]int {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "trace"))
	if err != nil {
		b.Fatal(err)
	}
	last := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var run, step string
		var attempt int
		if _, err := fmt.Sscan(line, &run, &step, &attempt); err != nil {
			b.Fatalf("%q: %v", line, err)
		}
		last[run+" "+step] = max(last[run+" "+step], attempt)
	}
	return last
}

// round lets one fault happen while runs are on their way, and waits for their ends and for the cluster to be whole.
func (b *faultsBed) round() (fault string) {
	b.Helper()
	hit, other := b.dice.IntN(3), 0
	if hit == 0 {
		other = 1
	}
	n, healthy := b.nodes[hit], b.nodes[other]
	ids := b.load(n, 4)
	fault = []string{"kill", "stop", "cut", "hold", "restart"}[b.dice.IntN(5)]
	var err error
	switch fault {
	case "kill":
		err = n.p.cmd.Process.Kill()
		b.nodes[hit] = b.join()
	case "stop":
		if err = n.p.cmd.Process.Signal(syscall.SIGSTOP); err == nil {
			b.await(3, 3)
			ids = append(ids, b.load(healthy, 4)...)
			err = n.p.cmd.Process.Signal(syscall.SIGCONT)
		}
	case "cut":
		n.proxy.Cut()
	case "hold":
		n.proxy.Hold()
		b.await(3, 3)
		ids = append(ids, b.load(healthy, 4)...)
		n.proxy.Release()
	case "restart":
		b.server.Restart("immediate")
	}
	if err != nil {
		b.Fatal(err)
	}
	ids = append(ids, b.load(b.nodes[b.dice.IntN(3)], 4)...)
	b.ends(b.nodes[b.dice.IntN(3)].c, ids)
	last := b.attempts()
	for _, id := range ids {
		for _, step := range []string{" first", " second"} {
			b.traces[id+step] = last[id+step]
		}
	}
	b.await(2, 2, 2)
	return fault
}

// TestMixedFaults kills nodes, stops them past their leases, cuts or holds their connections to the database and
// restarts that, in an order drawn from a seed, while runs are started. Each run that was acknowledged ends, a start
// that is repeated names the same run, and what was reported finished is not executed again.
func TestMixedFaults(t *testing.T) {
	within, seed := 15*time.Second, uint64(time.Now().UnixNano())
	var err error
	if text := os.Getenv(faultsFor); text != "" {
		if within, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(faultsSeed); text != "" {
		if _, err = fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", faultsSeed, seed)
	plain, server := newNodesBed(t)
	b := &faultsBed{
		nodesBed: plain, server: server, dice: rand.New(rand.NewPCG(seed, 0)),
		runs: map[string]string{}, traces: map[string]int{},
	}
	write(t, filepath.Join(b.dir, "flows"), "trace.yaml", traceFlow)
	for range 3 {
		b.nodes = append(b.nodes, b.join())
	}
	b.await(2, 2, 2)
	faults := map[string]int{}
	for end := time.Now().Add(within); time.Now().Before(end) && !t.Failed(); {
		faults[b.round()]++
	}
	for key, id := range b.runs {
		if again := b.sent(b.nodes[0].c, "trace", api.StartRequest{Key: key}); again != id {
			t.Errorf("the start with the key %s made the runs %s and %s", key, id, again)
		}
	}
	now := b.attempts()
	for what, last := range b.traces {
		if last == 0 || now[what] != last {
			t.Errorf("%s: attempt %d when the run was finished, now %d", what, last, now[what])
		}
	}
	b.pawl("doctor")
	t.Logf("%d runs, faults: %v", len(b.runs), faults)
}
