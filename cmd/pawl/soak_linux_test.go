package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// soakRuns is how many runs the soak makes: a run a second for a day.
var soakRuns = flag.Int("soak.runs", 24*60*60, "how many runs TestSoak starts")

// held is what a server holds, as Linux tells it.
type held struct{ memory, descriptors, threads int }

// holds returns what the server holds when it has rested: the least of the last moments.
func (p *process) holds() held {
	p.Helper()
	out := held{memory: 1 << 40, descriptors: 1 << 20, threads: 1 << 20}
	for range 12 {
		<-time.After(5 * time.Second)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		if err != nil {
			p.Fatal(err)
		}
		number := func(name string) int {
			_, rest, _ := strings.Cut(string(status), name+":")
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				p.Fatal(err)
			}
			return n
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err != nil {
			p.Fatal(err)
		}
		out.memory, out.threads = min(out.memory, number("VmRSS")<<10), min(out.threads, number("Threads"))
		out.descriptors = min(out.descriptors, len(open))
	}
	return out
}

// soak starts so many runs of each kind in turn, follows some of them, asks for what is not there, and checks that each
// run ends as its flow says. It knows of the server what its callers see.
func (p *process) soak(token, name string, many int) {
	p.Helper()
	const (
		works = `{"flow":"pawl: 1\nname: a\nsteps:\n  - {name: b, noop: {}}\n  - {name: c, needs: [b], sleep: 100ms}"`
		fails = `{"flow":"pawl: 1\nname: a\nsteps:\n` +
			`  - {name: b, fail: {kind: error, message: no}, retry: \"fixed(2, 10ms)\"}"`
	)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(p.Context(), method, p.address+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			p.Error(err)
			return 0, ""
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return answered(client.Do(r))
	}
	var all sync.WaitGroup
	var wrong atomic.Int64
	for w := range 24 {
		all.Go(func() {
			for i := w; i < many && wrong.Load() < 5; i += 24 {
				id, flow, want := fmt.Sprintf("%s-%d", name, i), works, `"succeeded"`
				if i%10 == 0 {
					flow, want = fails, `"failed"`
				}
				status, text := ask("POST", "/runs", flow+`,"workflowId":"`+id+`"}`)
				if status != http.StatusCreated {
					p.Errorf("%s: %d %s", id, status, text)
					wrong.Add(1)
					continue
				}
				path := "/outcome?wait=30s"
				if i%20 == 5 {
					path = "/events" // a stream that ends with the run
				}
				status, text = ask("GET", "/runs/"+id+path, "")
				if status != http.StatusOK || !strings.Contains(text, want) {
					p.Errorf("%s: %d %s, want %s", id, status, text, want)
					wrong.Add(1)
				}
				if i%50 == 0 {
					ask("GET", "/runs/nobody", "")
					ask("POST", "/runs", "{")
					ask("GET", "/runs?limit=100", "")
				}
			}
		})
	}
	all.Wait()
}

// answered returns the status and the text of an answer; 0 and the error, if there is none.
func answered(answer *http.Response, err error) (int, string) {
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	var text strings.Builder
	if err := answer.Write(&text); err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, text.String()
}

// TestSoak checks that a server which has done the work of a day holds no more than after the first part of it: memory,
// file descriptors and threads. Old runs are removed meanwhile.
func TestSoak(t *testing.T) {
	nightly.OnlyPlain(t, "a process of its own does the work of a day")
	dir := t.TempDir()
	database := "sqlite:" + dir + "/pawl.db"
	token := tokenOf(t, dir, database, "admin")
	p := startServer(t, dir, "--database", database, "--retention", "20s")
	p.soak(token, "first", *soakRuns/6)
	before := p.holds()
	began := time.Now()
	for part := range 5 {
		p.soak(token, fmt.Sprint("part", part), *soakRuns/6)
	}
	took := time.Since(began)
	after := p.holds()
	t.Logf("%d runs in %s: %+v, then %+v", *soakRuns/6*5, took.Round(time.Second), before, after)
	if after.memory > before.memory+before.memory/4+16<<20 || after.descriptors > before.descriptors+4 ||
		after.threads > before.threads+8 {
		t.Errorf("it holds %+v, and %+v after %d runs more", before, after, *soakRuns/6*5)
	}
}
