package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestWebhooksOfACluster checks that each node sends the events of its own runs, every event at least once and in the
// order of its run, whichever node the webhook was made or changed at. The next owner sends the events that a dead
// node had not sent.
func TestWebhooksOfACluster(t *testing.T) {
	nightly.Only(t, "nodes of a real cluster wait for leases")
	t.Parallel()
	b, _ := newNodesBed(t)
	write(t, filepath.Join(b.dir, "flows"), "eventful.yaml", eventful)
	first, second := newInbox(t), newInbox(t)
	a, _ := b.node()
	dies, _ := b.node()
	c, _ := b.node()
	b.await(2, 2, 2)
	first.register(a, b.token)
	begin := func(p *process, n int) (runs []string) {
		for range n {
			runs = append(runs, p.begin(b.token, "eventful"))
		}
		return runs
	}
	all := func(in *inbox, runs []string) func() bool {
		return func() bool { return in.ended == len(runs) }
	}

	runs := append(begin(a, 6), append(begin(dies, 6), begin(c, 6)...)...)
	first.await(t, "the end of all runs", all(first, runs))
	first.compare(c, b.token, runs)

	first.mu.Lock()
	first.away = true
	first.mu.Unlock()
	runs = append(runs, append(begin(dies, 6), begin(c, 6)...)...)
	for _, run := range runs {
		if status, text := a.ask(b.token, "GET", "/api/v1/runs/"+run+"/outcome?wait=60s", ""); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	if err := dies.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.await(3, 3)
	first.mu.Lock()
	first.away = false
	first.mu.Unlock()
	first.await(t, "the end of the runs that the receiver had not heard of", all(first, runs))
	first.compare(a, b.token, runs)

	second.hook = first.hook
	status, text := c.ask(b.token, "PATCH", "/api/v1/webhooks/all", fmt.Sprintf(`{"url":%q}`, second.URL))
	if status != http.StatusOK {
		t.Fatal(status, text)
	}
	later := append(begin(a, 6), begin(c, 6)...)
	second.await(t, "the end of the runs after the change", all(second, later))
	second.compare(a, b.token, later)

	a.signal(syscall.SIGTERM)
	b.await(6)
	later = append(later, begin(c, 6)...)
	second.await(t, "the end of the runs after a node has left", all(second, later))
	second.compare(c, b.token, later)

	another, _ := b.node()
	b.await(3, 3)
	if status, text := another.ask(b.token, "DELETE", "/api/v1/webhooks/all", ""); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	if _, text := c.ask(b.token, "GET", "/api/v1/webhooks", ""); strings.Contains(text, second.URL) {
		t.Errorf("a node still has the webhook that another one removed: %s", text)
	}
	if len(first.events) != len(runs) {
		t.Errorf("%d runs have told the first receiver something, want %d", len(first.events), len(runs))
	}
}
