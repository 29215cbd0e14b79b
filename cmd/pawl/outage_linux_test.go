package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// bearer asks a server with a token, and returns the status and the answer.
func (p *process) bearer(token, method, path, body string) (int, string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.address+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// tokenOf makes a token in a database.
func tokenOf(t *testing.T, dir, database, role string) string {
	t.Helper()
	cmd := command(t, dir)
	cmd.Args = append(cmd.Args, "token", "create", "my-"+role, "--role", role, "--database", database)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestDatabaseThatSwallowsPackets checks that 100 clients are answered within 3 s each while the way to the database
// swallows packets, whatever they show, and the metrics within 1 s. When it is back, all goes on.
func TestDatabaseThatSwallowsPackets(t *testing.T) {
	nightly.Only(t, "it starts the binary and PostgreSQL")
	proxy := pgtest.NewProxy(t, pgtest.Start(t))
	dir := t.TempDir()
	token := tokenOf(t, dir, proxy.DSN(), "admin")
	p := startServer(t, dir, "--database", proxy.DSN())
	if status, text := p.bearer(token, "GET", "/api/v1/runs", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	proxy.Hold()
	defer proxy.Release()
	<-time.After(3 * time.Second) // the last read is not fresh any more
	var all sync.WaitGroup
	ask := func(within time.Duration, token, method, path, body string, want ...int) {
		all.Go(func() {
			began := time.Now()
			p.bearer(token, "GET", "/livez", "") // which needs no storage: a busy machine takes so long for anything
			bare := time.Since(began)
			status, text := p.bearer(token, method, path, body)
			took, known := time.Since(began)-bare, false
			for _, w := range want {
				known = known || w == status
			}
			if took > within+2*bare || !known {
				t.Errorf("%s %s after %s: %d %s", method, path, took, status, text)
			}
		})
	}
	ask(time.Second, token, "GET", "/metrics", "", http.StatusOK)
	for i := range 100 {
		switch i % 4 {
		case 0:
			ask(3*time.Second, token, "GET", "/api/v1/runs?limit=1", "", http.StatusServiceUnavailable)
		case 1:
			ask(3*time.Second, fmt.Sprintf("pawl_%d_y", i), "GET", "/api/v1/runs", "", http.StatusServiceUnavailable)
		case 2:
			flow := `{"flow":"pawl: 1\nname: a\nsteps: [{name: b, noop: {}}]"}`
			ask(3*time.Second, token, "POST", "/api/v1/runs", flow, http.StatusServiceUnavailable)
		default:
			ask(3*time.Second, token, "GET", "/api/v1/runs/nobody", "", http.StatusServiceUnavailable)
		}
	}
	all.Wait()
	ask(time.Second, token, "GET", "/metrics", "", http.StatusOK)
	all.Wait()
	proxy.Release()
	for end := time.Now().Add(patience); ; {
		if status, _ := p.bearer(token, "GET", "/api/v1/runs", ""); status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not go on when the database is back")
		}
	}
}

// TestResidentMemory checks that the largest bodies of all routes, four at once of each, leave a server below 900 MB.
func TestResidentMemory(t *testing.T) {
	nightly.Only(t, "it starts the binary")
	if nightly.Raced {
		t.Skip("the race detector keeps a shadow of all memory")
	}
	dir := t.TempDir()
	database := "sqlite:" + dir + "/pawl.db"
	token := tokenOf(t, dir, database, "admin")
	p := startServer(t, dir, "--database", database)
	fill := func(size int, begin, item, end string) string {
		return begin + strings.Repeat(item+",", (size-len(begin)-len(end))/(len(item)+1)-1) + item + end
	}
	for path, bodies := range map[string][]string{
		"/policies/lint": {
			fill(64<<10, `{"policy":[`, `{}`, `]}`), fill(8<<20, `{"policy":[`, `{}`, `]}`),
			fill(64<<10, `{"policy":"[`, `[]`, `]"}`),
		},
		"/policies/simulate": {fill(64<<10, `{"policy":{},"script":[`, `7`, `]}`)},
		"/runs": {
			fill(2<<20, `{"workflow":"x","input":[`, `{}`, `]}`), fill(2<<20, `{"labels":{`, `"":7`, `}}`),
			fill(512<<10, `{"flow":"[`, `[]`, `]"}`),
		},
		"/tasks/poll": {fill(64<<10, `{"queue":"x","types":[`, `7`, `]}`)},
		"/tasks/report": {
			fill(8<<20, `{"reports":[`, `{}`, `]}`), fill(8<<20, `{"reports":[{"output":[`, `{}`, `]}]}`),
		},
		"/bodies/decisions": {fill(8<<20, `{"decisions":[`, `7`, `]}`)},
		"/flows/validate":   {fill(512<<10, `{"text":"[`, `[]`, `]"}`)},
	} {
		for _, body := range bodies {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if status, text := p.bearer(token, "POST", "/api/v1"+path, body); status >= 500 || status == 0 {
						t.Errorf("%s: %d %.200s", path, status, text)
					}
				})
			}
			all.Wait()
		}
		t.Logf("after %s: %d MB at most", path, p.mostResident()>>20)
	}
	if most := p.mostResident(); most > 900<<20 {
		t.Errorf("%d MB", most>>20)
	}
}

// mostResident returns how much memory the process had at most, in bytes.
func (p *process) mostResident() int {
	p.Helper()
	out, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		p.Fatal(err)
	}
	return kb << 10
}
