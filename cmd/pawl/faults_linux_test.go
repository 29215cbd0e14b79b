package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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

// The steps of mixed are a child run, which may be in another partition, and a task of a worker elsewhere, which may
// get lost on its way there.
const mixedFlow = `pawl: 1
name: mixed
steps:
  - name: child
    flow: {name: trace, spread: true}
    retry: {maxAttempts: 20, initialInterval: 10ms, backoffCoefficient: 1}
  - name: answer
    needs: [child]
    task: {queue: q, type: Answer}
    timeout: {startToClose: 3s}
    retry: {maxAttempts: 20, initialInterval: 10ms, backoffCoefficient: 1}
`

const tickFlow = `pawl: 1
name: tick
cron: {schedule: "@every 1s"}
steps:
  - name: tock
    exec: "true"
    retry: {maxAttempts: 20, initialInterval: 10ms, backoffCoefficient: 1}
`

// faultsBed is a cluster whose nodes reach the database each through proxies of its own, and are reached by the other
// nodes through another one; or each is in a namespace of a network.
type faultsBed struct {
	*nodesBed
	primary, standby *pgtest.Server
	network          *network // nil: proxies
	faults           map[string]fault

	nodes  []*faultyNode
	at     rotating // the same ones
	dice   *rand.Rand
	runs   []string        // the keys of the runs, which are numbers
	mixed  map[string]bool // runs whose steps leave no traces
	traces map[string]int  // the last attempt of each run and step when the run was reported finished

	contests contests
}

type faultyNode struct {
	p       *process
	c       *httpapi.Client
	proxies proxies       // the proxies of its connections to the servers of the database
	inbound *pgtest.Proxy // the proxy of the connections from other nodes
}

// proxies are those of one node.
type proxies []*pgtest.Proxy

func (all proxies) each(do func(*pgtest.Proxy)) {
	for _, p := range all {
		do(p)
	}
}

func (all proxies) cut()         { all.each((*pgtest.Proxy).Cut) }
func (all proxies) hold()        { all.each((*pgtest.Proxy).Hold) }
func (all proxies) holdReplies() { all.each((*pgtest.Proxy).HoldReplies) }
func (all proxies) release()     { all.each((*pgtest.Proxy).Release) }

// databaseAt returns the address of the database with other hosts and ports for its two servers.
func (b *faultsBed) databaseAt(hosts ...string) string {
	b.Helper()
	u, err := url.Parse(b.database)
	if err != nil {
		b.Fatal(err)
	}
	u.Host = strings.Join(hosts, ",")
	return u.String()
}

// join starts the node that has the number.
func (b *faultsBed) join(number int) *faultyNode {
	b.Helper()
	if b.network != nil {
		return b.joinFrom(number)
	}
	port, err := freePort()
	if err != nil {
		b.Fatal(err)
	}
	listen := "127.0.0.1:" + port
	n := &faultyNode{inbound: pgtest.NewProxy(b.T, "tcp://"+listen)}
	var hosts []string
	for _, server := range []*pgtest.Server{b.primary, b.standby} {
		p := pgtest.NewProxy(b.T, server.DSN())
		n.proxies, hosts = append(n.proxies, p), append(hosts, p.Address())
	}
	direct := b.database
	b.database = b.databaseAt(hosts...)
	n.p, n.c = b.node("--cluster-listen", listen, "--cluster-address", n.inbound.Address())
	b.database = direct
	return n
}

// load starts runs through one node, each with a key of its own.
func (b *faultsBed) load(n *faultyNode, count int) (ids []string) {
	b.Helper()
	for range count {
		id := b.started(n, len(b.runs))
		b.runs = append(b.runs, id)
		ids = append(ids, id)
	}
	return ids
}

// started starts a run with a key, or finds the one that was started with it.
func (b *faultsBed) started(n *faultyNode, key int) string {
	b.Helper()
	flow := "trace"
	if key%4 == 3 {
		flow = "mixed"
	}
	id := b.sent(n.c, flow, api.StartRequest{Key: fmt.Sprint(key)})
	b.mixed[id] = flow == "mixed"
	return id
}

// work does tasks, through one node after the other, until the context ends.
func (b *faultsBed) work(ctx context.Context) {
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, 3*time.Second) // a node may be stopped
		tasks, err := b.at.client().Poll(asked, api.PollRequest{Queue: "q", Max: 3, Wait: api.Duration(time.Second)})
		for _, task := range tasks {
			report := api.TaskReport{Task: task.Task, Kind: api.TaskComplete, Output: []byte("1")}
			_, err = b.at.client().Report(asked, []api.TaskReport{report})
		}
		_ = err // a task that got lost, or its report, is another attempt's
		cancel()
	}
}

// read asks the first node until it answers: a partition may have lost its owner a moment ago.
func read[A any](b *faultsBed, ask func(*httpapi.Client) (A, error)) A {
	b.Helper()
	for end := time.Now().Add(patience); ; {
		answer, err := ask(b.nodes[0].c)
		if err == nil {
			return answer
		}
		if time.Now().After(end) {
			b.Fatal(err)
		}
	}
}

// ticks checks the runs that a timetable has started: they go on, and no two of them are for the same instant.
func (b *faultsBed) ticks() {
	b.Helper()
	fired := map[api.Time]string{}
	list := func(q api.Query) api.Page {
		b.Helper()
		return read(b, func(c *httpapi.Client) (api.Page, error) { return c.Runs(b.Context(), q) })
	}
	q := api.Query{Workflow: "tick"}
	for more := true; more; {
		page := list(q)
		for _, r := range page.Runs {
			run := read(b, func(c *httpapi.Client) (*api.Run, error) { return c.Run(b.Context(), r.Run) })
			if before := fired[run.ScheduledAt]; before != "" {
				b.Errorf("the runs %s and %s are for the same instant %v", before, r.Run, run.ScheduledAt)
			}
			fired[run.ScheduledAt] = r.Run
		}
		q.Cursor, more = page.Next, page.Next != ""
	}
	for end := time.Now().Add(patience); ; {
		newest := list(api.Query{Workflow: "tick", Limit: 1}).Runs[0].Run
		if !slices.Contains(slices.Collect(maps.Values(fired)), newest) {
			break
		}
		if time.Now().After(end) {
			b.Fatalf("no run by the timetable follows run %s", newest)
		}
	}
	b.Logf("%d runs by the timetable", len(fired))
}

// attempts reads the last attempt of each run and step that was executed.
func (b *faultsBed) attempts() map[string]int {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "trace"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// fault is something that happens to one of the nodes. It returns the runs that were started meanwhile.
type fault func(b *faultsBed, hit int, healthy *faultyNode) (ids []string)

// machineFaults are those of processes and servers, by their names.
var machineFaults = map[string]fault{
	"kill": func(b *faultsBed, hit int, _ *faultyNode) []string {
		p := b.nodes[hit].p
		if err := p.cmd.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		_ = p.cmd.Wait() // killed
		b.nodes[hit] = b.join(hit)
		b.at.replace(hit, b.nodes[hit].c)
		return nil
	},
	"stop": func(b *faultsBed, hit int, healthy *faultyNode) []string {
		p := b.nodes[hit].p
		return b.takenOver(func() { p.signal(syscall.SIGSTOP) }, func() { p.signal(syscall.SIGCONT) }, healthy)
	},
	"restart": func(b *faultsBed, _ int, _ *faultyNode) []string { b.primary.Restart("immediate"); return nil },
	"promote": func(b *faultsBed, _ int, _ *faultyNode) []string {
		killed := b.primary
		killed.Kill()
		b.standby.Promote()
		b.primary, b.standby = b.standby, b.standby.StandbyAt(killed) // no standby, no answered commit
		return nil
	},
}

// proxyFaults are those of the proxies.
var proxyFaults = map[string]fault{
	"database: cut": func(b *faultsBed, hit int, _ *faultyNode) []string { b.nodes[hit].proxies.cut(); return nil },
	"database: hold": func(b *faultsBed, hit int, healthy *faultyNode) []string {
		n := b.nodes[hit]
		return b.takenOver(n.proxies.hold, n.proxies.release, healthy)
	},
	"database: no replies": func(b *faultsBed, hit int, healthy *faultyNode) []string {
		n := b.nodes[hit]
		return b.takenOver(n.proxies.holdReplies, n.proxies.release, healthy)
	},

	"nodes: cut": func(b *faultsBed, hit int, _ *faultyNode) []string { b.nodes[hit].inbound.Cut(); return nil },
	"nodes: hold": func(b *faultsBed, hit int, _ *faultyNode) []string {
		n := b.nodes[hit]
		return b.apart(n.inbound.Hold, n.inbound.Release, n)
	},
	"nodes: no replies": func(b *faultsBed, hit int, _ *faultyNode) []string {
		n := b.nodes[hit]
		return b.apart(n.inbound.HoldReplies, n.inbound.Release, n)
	},
	"nodes: hold all": func(b *faultsBed, _ int, _ *faultyNode) []string {
		var all proxies
		for _, n := range b.nodes {
			all = append(all, n.inbound)
		}
		return b.apart(all.hold, all.release, b.nodes...)
	},
}

// takenOver keeps a node from its work until the others have its partitions.
func (b *faultsBed) takenOver(hold, release func(), healthy *faultyNode) (ids []string) {
	b.Helper()
	hold()
	b.await(3, 3)
	ids = b.load(healthy, 4)
	release()
	return ids
}

// apart keeps nodes from reaching each other, as a network that has come apart. The work of each goes on: what is
// started at a node without a name is its own.
func (b *faultsBed) apart(hold, release func(), nodes ...*faultyNode) (ids []string) {
	b.Helper()
	hold()
	for _, n := range nodes {
		for range 2 {
			ids = append(ids, b.sent(n.c, "trace", api.StartRequest{}))
		}
	}
	for end := time.Now().Add(patience); ; {
		last := b.attempts()
		waits := slices.IndexFunc(ids, func(id string) bool { return last[id+" second"] == 0 })
		if waits < 0 {
			break
		}
		if time.Now().After(end) {
			b.Fatalf("run %s does not go on while the nodes do not reach each other", ids[waits])
		}
	}
	release()
	return ids
}

// round lets one fault happen while runs are on their way, and waits for their ends and for the cluster to be whole.
func (b *faultsBed) round() (fault string) {
	b.Helper()
	hit, other := b.dice.IntN(3), 0
	if hit == 0 {
		other = 1
	}
	healthy := b.nodes[other]
	ids := b.load(b.nodes[hit], 4)
	stop := b.compete()
	names := slices.Sorted(maps.Keys(b.faults))
	fault = names[b.dice.IntN(len(names))]
	ids = append(ids, b.faults[fault](b, hit, healthy)...)
	ids = append(ids, b.load(b.nodes[b.dice.IntN(3)], 4)...)
	b.ends(b.nodes[b.dice.IntN(3)].c, ids)
	last := b.attempts()
	for _, id := range ids {
		for _, step := range []string{" first", " second"} {
			if !b.mixed[id] {
				b.traces[id+step] = last[id+step]
			}
		}
	}
	b.await(2, 2, 2)
	stop()
	return fault
}

// TestMixedFaults kills nodes, stops them past their leases, cuts or holds their connections to the database and to
// each other, both ways or one way, restarts the primary server of the database, and kills it and promotes its
// synchronous standby, in an order drawn from a seed, while runs are started. Each run that was acknowledged ends, a
// start that is repeated names the same run, and what was reported finished is not executed again. A timetable goes on,
// and whoever operates the same runs at once is answered as if one request was carried out after the other, see
// [contestModel].
func TestMixedFaults(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	mixedFaults(t, nil, proxyFaults)
}

// mixedFaults does what the tests have in common. The faults are those of the network or of the proxies.
func mixedFaults(t *testing.T, network *network, faults map[string]fault) {
	t.Helper()
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
	settings := append(network.settings(), "-c", "synchronous_standby_names=walreceiver", "-c",
		"wal_retrieve_retry_interval=100ms")
	b := &faultsBed{
		primary: pgtest.StartServer(t, settings...), network: network, faults: maps.Clone(machineFaults),
		dice: rand.New(rand.NewPCG(seed, 0)), mixed: map[string]bool{}, traces: map[string]int{},
	}
	maps.Copy(b.faults, faults)
	network.admit(b.primary)
	b.standby = b.primary.Standby(settings...)
	b.nodesBed = nodesBedOn(t, twoServers(t, b.primary, b.standby), b.primary.Lease())
	flows := filepath.Join(b.dir, "flows")
	write(t, flows, "trace.yaml", traceFlow)
	write(t, flows, "mixed.yaml", mixedFlow)
	write(t, flows, "tick.yaml", tickFlow)
	write(t, flows, "contest.yaml", contestFlow)
	for number := range 3 {
		n := b.join(number)
		b.nodes, b.at.clients = append(b.nodes, n), append(b.at.clients, n.c)
	}
	b.await(2, 2, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() { b.work(ctx) })
	defer func() { cancel(); worker.Wait() }()
	b.sent(b.nodes[0].c, "tick", api.StartRequest{WorkflowID: "tick", UseExisting: true})
	counts := map[string]int{}
	for end := time.Now().Add(within); time.Now().Before(end) && !t.Failed(); {
		counts[b.round()]++
	}
	for key, id := range b.runs {
		if again := b.started(b.nodes[0], key); again != id {
			t.Errorf("the start with the key %d made the runs %s and %s", key, id, again)
		}
	}
	now := b.attempts()
	for what, last := range b.traces {
		if last == 0 || now[what] != last {
			t.Errorf("%s: attempt %d when the run was finished, now %d", what, last, now[what])
		}
	}
	b.ticks()
	b.pawl("doctor")
	if 2*b.contests.undecided > b.contests.held {
		t.Errorf("%d of %d contests could not be judged", b.contests.undecided, b.contests.held)
	}
	t.Logf("%d runs; %d contests (%d undecided) of %d calls, %d of which may have been carried out or not; faults: %v",
		len(b.runs), b.contests.held, b.contests.undecided, b.contests.calls, b.contests.unknown, counts)
}
