package examples_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pawlbin"
	"github.com/pawl-dev/pawl/internal/pgtest"
	_ "github.com/pawl-dev/pawl/journal/postgres" // the runs of the nodes
)

var nodeKills = flag.Int("node-kills", 0, "how often nodes of a cluster are killed (default: 4, and 12 at night)")

// nodesBed is three processes that share a database, all of which take orders.
type nodesBed struct {
	*testing.T
	bin, dir, database string
	orders             int // the number of each node's
	nodes              [3]*exec.Cmd
	ended              [3]chan error
	said               [3]bytes.Buffer
}

// start starts a node, or its next life.
func (b *nodesBed) start(i int) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), b.bin, append(flags("database", b.database, "secret",
		filepath.Join(b.dir, "secret"), "ledger", filepath.Join(b.dir, "ledger"), "pace", "20ms"),
		flags("orders", b.orders, "from", i*b.orders)...)...)
	b.said[i].Reset()
	cmd.Stderr = &b.said[i]
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	b.nodes[i], b.ended[i] = cmd, ended
	go func() { ended <- cmd.Wait() }()
}

// TestNodesOften kills nodes of a cluster at random instants, again and again, while they take orders, answer updates,
// execute handlers and undo what cannot be done. Nothing that was acknowledged is lost, and nothing that has succeeded
// is done again.
func TestNodesOften(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it needs signals")
	}
	server := pgtest.StartServer(t)
	kills := *nodeKills
	if kills == 0 {
		kills = nightly.Few(4, 12)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	b := &nodesBed{
		T: t, bin: filepath.Join(pawlbin.Build(t, "./examples/nodes"), "nodes"), dir: t.TempDir(), orders: 5 + 2*kills,
		database: server.DSN() + "&partitions=6&" + server.Lease(),
	}
	if err := os.WriteFile(filepath.Join(b.dir, "secret"), []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range b.nodes {
		b.start(i)
	}
	died := 0
	for died < kills && b.grows(time.Duration(rng.IntN(600))*time.Millisecond) {
		i := rng.IntN(len(b.nodes))
		select {
		case err := <-b.ended[i]:
			if err != nil {
				t.Fatalf("a node ended by itself: %v\n%s", err, b.said[i].String())
			}
		default:
			_ = b.nodes[i].Process.Kill()
			<-b.ended[i]
			died++
		}
		b.start(i)
	}
	for i := range b.nodes {
		if err := <-b.ended[i]; err != nil {
			t.Fatalf("the last life of a node: %v\n%s", err, b.said[i].String())
		}
	}
	t.Logf("%d kills, %d orders", died, 3*b.orders)
	if died < kills/2 {
		t.Errorf("only %d kills: the orders were done before", died)
	}
	b.check()
}

// ledger returns what the nodes have written.
func (b *nodesBed) ledger() []byte {
	text, _ := os.ReadFile(filepath.Join(b.dir, "ledger"))
	return text
}

// grows waits until the nodes have done something, and for a time then. It reports false once all of them have ended.
func (b *nodesBed) grows(d time.Duration) bool {
	before, began := len(b.ledger()), time.Now()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for range every.C {
		if len(b.ledger()) == before {
			began = time.Now()
		} else if time.Since(began) >= d {
			return true
		}
		all := true
		for _, ended := range b.ended {
			all = all && len(ended) == 1
		}
		if all {
			return false
		}
	}
	return false
}

// check holds the ledger against the runs.
func (b *nodesBed) check() {
	eng, err := pawl.Open(b.Context(), pawl.Config{Database: b.database})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = eng.Close() }()
	runs, err := eng.ListRuns(b.Context(), client.Query{Workflow: "order", Limit: 10_000})
	if err != nil {
		b.Fatal(err)
	}
	if len(runs) != 3*b.orders {
		b.Errorf("there are %d runs of %d orders", len(runs), 3*b.orders)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(b.ledger())) {
		count[strings.TrimSpace(line)]++
	}
	repeated := 0
	for _, run := range runs {
		repeated += b.checkOrder(eng, run, count)
	}
	b.Logf("%d steps were made again because their process died", repeated)
}

// checkOrder checks one order, and returns how many of its steps were done more than once.
func (b *nodesBed) checkOrder(eng *pawl.Engine, run client.Summary, count map[string]int) (repeated int) {
	var order int
	if _, err := fmt.Sscanf(run.WorkflowID, "order-%d", &order); err != nil {
		b.Fatal(err)
	}
	events, err := eng.HistoryEvents(b.Context(), run.ID, 0)
	if err != nil {
		b.Fatal(err)
	}
	begun := attempts(b.T, run, events)
	d, err := eng.DescribeRun(b.Context(), run.ID)
	if err != nil {
		b.Fatal(err)
	}
	line := func(what string) int { return count[fmt.Sprintf("order %d: %s", order, what)] }
	steps := map[string]string{
		"reserve": "reserve", "label": "label", "pack 1": "parcels[0]/pack 1", "pack 2": "parcels[1]/pack 2",
	}
	if order%5 == 4 {
		steps["release"] = "release"
		if run.Phase != client.PhaseFailed || line("carry") != 0 {
			b.Errorf("order %d is %s, and carried %d times", order, run.Phase, line("carry"))
		}
	} else {
		steps["carry"] = "carry"
		want := fmt.Sprintf(`"order %d is carried to street %d"`, order, order)
		if string(d.Output) != want || line("release") != 0 {
			b.Errorf("order %d: %s, released %d times", order, d.Output, line("release"))
		}
	}
	for what, step := range steps {
		n := line(what)
		if n == 0 || n > begun[step] {
			b.Errorf("order %d: %s was begun %d times in %d attempts", order, what, n, begun[step])
		}
		repeated += max(0, n-1)
	}
	if line("taken") == 0 {
		b.Errorf("order %d: nobody was told that it is taken", order)
	}
	for _, answer := range runAnswers(count, order) {
		if answer != fmt.Sprintf("order %d goes to street %d", order, order) {
			b.Errorf("order %d was told %q", order, answer)
		}
	}
	return repeated
}

// runAnswers returns the answers that callers of an order were told.
func runAnswers(count map[string]int, order int) (answers []string) {
	for line := range count {
		if answer, ok := strings.CutPrefix(line, fmt.Sprintf("order %d: answer ", order)); ok {
			answers = append(answers, answer)
		}
	}
	return answers
}
