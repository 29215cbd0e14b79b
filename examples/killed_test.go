package examples_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the programs' own databases

	"github.com/pawl-dev/pawl/client"
	_ "github.com/pawl-dev/pawl/journal/sqlite" // the runs
)

var programs = []*program{
	{
		name: "approval", log: "log", check: checkApproval,
		runs: func(kills int) int { return 4 * (kills + 2) },
		size: func(kills int) []string {
			return flags("changes", 4*(kills+2), "patience", slower(300*time.Millisecond, kills+4))
		},
		input: answers,
	},
	{
		name: "fanout", log: "log", grow: true, check: checkFanout,
		runs: func(int) int { return 1 },
		size: func(kills int) []string { return flags("photos", 20*(kills+2), "pace", "50ms") },
	},
	{
		name: "import", log: "products.db-wal", check: checkImport,
		runs: func(int) int { return 1 },
		size: func(kills int) []string { return flags("rows", 2500*(kills+2), "pace", "20ms") },
	},
	{
		name: "ratelimit", log: "log", grow: true, check: checkRatelimit,
		runs: func(kills int) int { return 40 * (kills + 2) },
		size: func(kills int) []string { return flags("items", 40*(kills+2), "rate", 50) },
	},
	{
		name: "saga", log: "ledger", grow: true, check: checkSaga,
		runs: func(kills int) int { return 5 * (kills + 2) },
		size: func(kills int) []string {
			return flags("orders", 5*(kills+2), "pace", slower(20*time.Millisecond, kills))
		},
	},
	{
		name: "schedule", log: "reports", check: checkSchedule, left: leftOfSchedule,
		runs: func(int) int { return 0 }, // as many as have been due
		size: func(int) []string { return flags("for", "6s") },
	},
	{
		name: "versions", log: "log", check: checkVersions,
		runs: func(int) int { return 6 },
		size: func(kills int) []string { return flags("wait", slower(250*time.Millisecond, kills)) },
	},
	{
		name: "webshop", log: "shop.db-wal", check: checkWebshop, use: order,
		runs: orders,
		size: func(int) []string { return nil },
	},
}

// result is what is left of a program.
type result struct {
	dir      string
	kills    int
	lines    [][]string                // the lines of the log, as words
	count    map[string]int            // occurrences of each line
	runs     []client.Summary          // all but those of schedules, the oldest first
	attempts map[string]map[string]int // the attempts of each run and step; a run is named by its workflow id
	describe func(string) client.Description
}

// look reads the log and the runs, and checks what holds for all programs: every run has ended, and no step was made
// again after it had succeeded.
func look(t *testing.T, dir, log string, kills int) result {
	t.Helper()
	r := result{dir: dir, kills: kills, count: map[string]int{}, attempts: map[string]map[string]int{}}
	if text, err := os.ReadFile(filepath.Join(dir, log)); err == nil && !strings.HasSuffix(log, "-wal") {
		for line := range strings.Lines(string(text)) {
			r.lines = append(r.lines, strings.Fields(line))
			r.count[strings.TrimSpace(line)]++
		}
	}
	db := openStored(t, dir)
	r.describe = db.describe
	r.runs = db.list()
	for _, run := range r.runs {
		r.attempts[run.WorkflowID] = attempts(t, run, db.events(run.ID))
	}
	return r
}

// attempts returns how often each step of a run was begun, and checks that none began after it had succeeded.
func attempts(t *testing.T, run client.Summary, events []client.HistoryEvent) map[string]int {
	t.Helper()
	begun, succeeded := map[string]int{}, map[string]bool{}
	for _, e := range events {
		switch {
		case e.Type == "attempt.started":
			if begun[e.Step]++; succeeded[e.Step] {
				t.Errorf("run %s: step %s began again after it had succeeded", run.WorkflowID, e.Step)
			}
		case e.Type == "step.succeeded":
			succeeded[e.Step] = true
		}
	}
	if run.Phase == client.PhaseSucceeded && len(begun) > 0 && len(succeeded) == 0 {
		t.Errorf("run %s succeeded, and none of the steps that it has begun", run.WorkflowID)
	}
	if !run.Phase.Closed() {
		t.Errorf("run %s is %s", run.WorkflowID, run.Phase)
	}
	return begun
}

// inOrder checks the lines of a run: those of its steps, in their order. A line is there again only for another
// attempt, which was made because the process died.
func (r result) inOrder(t *testing.T, id string, steps ...string) {
	t.Helper()
	at := 0
	count := map[string]int{}
	for _, words := range r.lines {
		if words[0] != id {
			continue
		}
		count[words[1]]++
		next := slices.Index(steps, words[1])
		if next != at && next != at+1 {
			t.Errorf("%s: %s comes where %s is done", id, words[1], steps[at])
			return
		}
		at = next
	}
	for _, step := range steps {
		if n := count[step]; n == 0 || n > r.attempts[id][step] {
			t.Errorf("%s: %s was done %d times in %d attempts", id, step, n, r.attempts[id][step])
		}
	}
}

// answers returns the lines typed for every four changes: yes, and it works; no; yes, without any report; nothing.
func answers(kills int) string {
	var out strings.Builder
	for i := 1; i <= 4*(kills+2); i += 4 {
		fmt.Fprintf(&out, "change-%d bob yes\nchange-%d ada yes\nchange-%d works\n", i, i, i)
		fmt.Fprintf(&out, "change-%d ada no\nchange-%d ada yes\n", i+1, i+2)
	}
	return out.String()
}

// slower returns a time that grows with the kills, so that a program outlives them and its input still arrives in
// time.
func slower(d time.Duration, kills int) time.Duration { return d * time.Duration(2+kills) }

func checkApproval(t *testing.T, r result) {
	for i, run := range r.runs {
		out := string(r.describe(run.ID).Output)
		asked := []string{"mail-team"}
		if r.count[run.WorkflowID+" mail-manager"] > 0 {
			asked = append(asked, "mail-manager")
		}
		switch i % 4 {
		case 0:
			r.inOrder(t, run.WorkflowID, append(asked, "apply")...)
			if out != `"approved by ada, works"` {
				t.Errorf("%s: %s", run.WorkflowID, out)
			}
		case 1:
			r.inOrder(t, run.WorkflowID, asked...)
			if out != `"refused by ada"` {
				t.Errorf("%s: %s", run.WorkflowID, out)
			}
		case 2:
			r.inOrder(t, run.WorkflowID, append(asked, "apply", "take-back")...)
			if out != `"taken back"` {
				t.Errorf("%s: %s", run.WorkflowID, out)
			}
		case 3:
			r.inOrder(t, run.WorkflowID, "mail-team", "mail-manager")
			if run.Phase != client.PhaseFailed {
				t.Errorf("%s is %s: %s", run.WorkflowID, run.Phase, out)
			}
		}
	}
}

func checkFanout(t *testing.T, r result) {
	var thumbnails []struct{ Photo, URL, Problem string }
	if err := json.Unmarshal(r.describe(r.runs[0].ID).Output, &thumbnails); err != nil {
		t.Fatal(err)
	}
	begun := r.attempts[""]
	broken := 0
	for i, th := range thumbnails {
		shrunk, sent := r.count[th.Photo+" shrink"], r.count[th.Photo+" send"]
		if th.Problem != "" {
			broken++
			continue
		}
		if shrunk == 0 || shrunk > begun[fmt.Sprintf("photos[%d]/shrink", i)] ||
			sent == 0 || sent > begun[fmt.Sprintf("photos[%d]/send", i)] {
			t.Errorf("%s was shrunk %d times and sent %d times", th.Photo, shrunk, sent)
		}
	}
	if broken != 1 || r.count["sea report"] == 0 || r.count["sea report"] > begun["report"] {
		t.Errorf("%d broken photos, %d reports", broken, r.count["sea report"])
	}
}

// checkImport checks that all rows are there. A kill repeats the rows of a second at most, and those of the batch in
// flight.
func checkImport(t *testing.T, r result) {
	db, err := sql.Open("sqlite", filepath.Join(r.dir, "products.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows, times int
	err = db.QueryRowContext(t.Context(), `SELECT count(*), sum(times) FROM products`).Scan(&rows, &times)
	if err != nil {
		t.Fatal(err)
	}
	out := number(string(r.describe(r.runs[0].ID).Output))
	const second = 100 * (1000/20 + 2) // the most rows in a second, at a pace of 20 ms
	if rows == 0 || rows != out || times-rows > r.kills*second {
		t.Errorf("%d rows are there, of %d; %d were written again", rows, out, times-rows)
	}
	t.Logf("%d rows, %d of them written again, %d attempts", rows, times-rows, r.attempts[""]["load"])
}

func checkRatelimit(t *testing.T, r result) {
	statuses := map[string]int{}
	for _, words := range r.lines {
		statuses[words[1]]++
	}
	for item, run := range r.runs {
		n := r.count[fmt.Sprint(item, " 200")]
		if run.Phase != client.PhaseSucceeded || n == 0 || n > 1+r.kills {
			t.Errorf("%s is %s and has %d quotes", run.WorkflowID, run.Phase, n)
		}
	}
	t.Logf("the API said %v", statuses)
}

func checkSaga(t *testing.T, r result) {
	for i, run := range r.runs {
		n := func(what string) int { return r.count[what+" "+run.WorkflowID] }
		whole := n("ship") == 1 && n("charge") == 1 && n("refund") == 0 && n("release") == 0
		undone := n("ship") == 0 && n("charge") == 1 && n("refund") == 1 && n("release") == 1
		if unicorn := (i+1)%5 == 0; unicorn != undone || unicorn == whole {
			t.Errorf("%s is %s: charged %d, shipped %d, refunded %d", run.WorkflowID, run.Phase, n("charge"),
				n("ship"), n("refund"))
		}
	}
}

// checkSchedule checks that each firing has one report, those that were missed too.
func checkSchedule(t *testing.T, r result) {
	for _, run := range r.runs {
		n := r.count["sales "+run.WorkflowID]
		if n == 0 || n > r.attempts[run.WorkflowID]["write"] {
			t.Errorf("%s has %d reports", run.WorkflowID, n)
		}
	}
	if gap := gapOf(t, r.runs); gap != "" {
		t.Error(gap)
	}
	if len(r.runs) < 3 {
		t.Errorf("%d firings", len(r.runs))
	}
}

// gapOf returns between which firings there are others that have no run, empty if there are none.
func gapOf(t *testing.T, runs []client.Summary) string {
	t.Helper()
	firings := make([]time.Time, 0, len(runs))
	for _, run := range runs {
		_, text, _ := strings.Cut(run.WorkflowID, "@")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		firings = append(firings, at)
	}
	slices.SortFunc(firings, time.Time.Compare)
	for i := 1; i < len(firings); i++ {
		if gap := firings[i].Sub(firings[i-1]); gap != 2*time.Second {
			return fmt.Sprintf("%s between the firings at %s and %s", gap, firings[i-1], firings[i])
		}
	}
	return ""
}

// leftOfSchedule returns what a life of some seconds had no time for: on a busy machine it ends while it makes up for
// firings, or before it knows that the last one was missed.
func leftOfSchedule(t *testing.T, dir string) string {
	t.Helper()
	runs := openStored(t, dir).list()
	for _, run := range runs {
		if !run.Phase.Closed() {
			return fmt.Sprintf("run %s is %s", run.WorkflowID, run.Phase)
		}
	}
	return gapOf(t, runs)
}

func checkVersions(t *testing.T, r result) {
	for _, run := range r.runs {
		steps := []string{"pack", "wrap", "send"}
		if strings.HasPrefix(run.WorkflowID, "v1") {
			steps = []string{"pack", "send"}
		}
		r.inOrder(t, run.WorkflowID, steps...)
	}
}

func orders(kills int) int { return 20 * (kills + 2) }

// order plays the shop's client. It sends each order until it gets an answer, and is done when all orders were sent
// to it.
func order(t *testing.T, _ string, kills int) (<-chan struct{}, []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	client := &http.Client{Timeout: 5 * time.Second}
	ask := func(ctx context.Context, method, path, body, want string) error {
		req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		var text bytes.Buffer
		if _, err := text.ReadFrom(res.Body); err != nil {
			return err
		}
		if res.StatusCode >= 300 || !strings.Contains(text.String(), want) {
			return errors.New(res.Status + " " + text.String())
		}
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range orders(kills) {
			body := fmt.Sprintf(`{"id": "order-%d", "item": "book"}`, i)
			if retry(t.Context(), func() error { return ask(t.Context(), "POST", "/orders", body, "") }) != nil {
				return
			}
			pause(t.Context(), 10*time.Millisecond)
		}
		for i := range orders(kills) {
			path := fmt.Sprint("/orders/order-", i)
			if retry(t.Context(), func() error { return ask(t.Context(), "GET", path, "", "sent") }) != nil {
				return
			}
		}
	}()
	return done, flags("address", address)
}

func checkWebshop(t *testing.T, r result) {
	db, err := sql.Open("sqlite", filepath.Join(r.dir, "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var sent, paid, different, waiting int
	err = db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM orders WHERE status = 'sent'),
		(SELECT count(*) FROM payments), (SELECT count(DISTINCT order_id) FROM payments),
		(SELECT count(*) FROM pawl_outbox)`).Scan(&sent, &paid, &different, &waiting)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.runs); n != sent || n != paid || n != different || waiting != 0 {
		t.Errorf("%d runs, %d orders were sent, %d payments for %d orders, %d messages left", n, sent, paid, different,
			waiting)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
