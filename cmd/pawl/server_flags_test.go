//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServerFlags checks that the flags of pawl server do what they say.
func TestServerFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const database = "sqlite:p.db"
	token := createToken(t, dir, database, "root", "--role", "admin")
	if err := writeFolder(dir, "flows/waiting.yaml",
		"pawl: 1\nname: waiting\nsteps: [{name: a, wait: {event: go}}]\n"); err != nil {
		t.Fatal(err)
	}
	p := startServer(t, dir, "--database", database, "--waits", "1", "--stop-within", "100ms",
		"--webhook-allow", "127.0.0.1", "flows")

	for url, status := range map[string]int{ // --webhook-allow: this address, and no other private one
		"http://127.0.0.1:9/x": http.StatusCreated, "http://10.0.0.1/x": http.StatusBadRequest,
		"http://169.254.169.254/latest": http.StatusBadRequest, "http://[::1]/x": http.StatusBadRequest,
	} {
		got, text := p.ask(token, "POST", "/api/v1/webhooks", `{"name":"hook","url":"`+url+`"}`)
		if got != status {
			t.Errorf("a webhook to %s: %d %s", url, got, text)
		}
	}

	run := p.begin(token, "waiting") // --waits: one stream is open, and a second one is refused
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.address+"/api/v1/runs/"+run+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	stream, err := http.DefaultClient.Do(req)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", stream, err)
	}
	defer stream.Body.Close()
	status, text := p.ask(token, "GET", "/api/v1/runs/"+run+"/outcome?wait=20s", "")
	if status != http.StatusTooManyRequests || !strings.Contains(text, "has 1 streams, polls and waits open") {
		t.Errorf("a second wait: %d %s", status, text)
	}
	p.pages(token, dir, database)

	from := time.Now() // --stop-within: the stream does not hold the end up
	p.signal(syscall.SIGTERM)
	p.told("STOPPING=1")
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(from); took > 10*time.Second {
		t.Errorf("it stopped after %s", took)
	}
	if out, err := command(t, dir, "run", "list", "--database", database).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "waiting") {
		t.Errorf("after the stop: %s, %v", out, err)
	}
}

// pages reads the audit log page by page, with pawl audit --cursor, and holds it against the whole.
func (p *process) pages(token, dir, database string) {
	p.Helper()
	type page struct {
		Entries []struct{ ID, Path string }
		Next    string
	}
	read := func(args ...string) (out page) {
		p.Helper()
		cmd := command(p.T, dir, append([]string{"audit", "-o", "json", "--server", p.address}, args...)...)
		cmd.Env = append(cmd.Env, "PAWL_TOKEN="+token)
		text, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			p.Fatalf("pawl audit %v of %s: %s, %v", args, database, text, err)
		}
		return out
	}
	var all page
	for len(all.Entries) < 5 { // entries are written a moment after the answer
		all = read()
	}
	cursor, n := "", 0
	for {
		one := read("--limit", "2", "--cursor", cursor)
		for _, e := range one.Entries {
			if n >= len(all.Entries) || e.ID != all.Entries[n].ID {
				p.Fatalf("entry %d is %+v of\n%+v", n, e, all)
			}
			n++
		}
		if cursor = one.Next; cursor == "" {
			break
		}
	}
	if n != len(all.Entries) {
		p.Errorf("%d of %d entries came by pages", n, len(all.Entries))
	}
}
