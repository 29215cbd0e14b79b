package conformance

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/server/stevoraapi"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

// stevoraAnswer is what the rows read of an answer.
type stevoraAnswer struct {
	status  int
	Success bool
	Data    json.RawMessage
	Error   struct{ Code, Message string }
}

type stevoraRun struct {
	Status, FailedAt string
	Error            *struct{ Message string }
	Steps            []stevoraStep
}

type stevoraStep struct {
	Name     string `json:"stepName"`
	Status   string
	Attempts int `json:"attemptCount"`
	Error    *struct{ Message string }
	NextAt   string `json:"nextRetryAt"`
}

// step finds a step of a run.
func (r *stevoraRun) step(name string) stevoraStep {
	for _, s := range r.Steps {
		if s.Name == name {
			return s
		}
	}
	return stevoraStep{}
}

// stevoraServer answers Stevora's requests about the runs of a stage, through HTTP.
func (s *stage) stevoraServer() (ask func(method, path string) stevoraAnswer) {
	read := func(d journal.Definition) (*service.Prepared, error) {
		def, err := flow.Compile(s.docs[d.Name])
		return &service.Prepared{Definition: def}, err
	}
	svc := service.NewEmbedded(s.engine, read, func() core.Time { return policy.At(time.Now()) })
	mux := http.NewServeMux()
	handle := func(_, pattern string, answer http.HandlerFunc) { mux.HandleFunc(pattern, answer) }
	stevoraapi.Routes(handle, svc, func(_ context.Context, name string) (api.Definition, error) {
		d, ok := s.defs[name]
		if !ok {
			return api.Definition{}, &api.Error{Code: api.CodeNotFound, Message: "there is no workflow " + name}
		}
		return api.Definition{ID: d.ID.String(), Kind: d.Kind, Name: d.Name, Source: string(d.Source)}, nil
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	listener := memnet.Listen()
	go func() { _ = server.Serve(listener) }() // Serve ends when it is closed
	client := &http.Client{Transport: &http.Transport{DialContext: listener.Dial}}
	s.t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := server.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return func(method, path string) stevoraAnswer {
		s.t.Helper()
		path, body, _ := strings.Cut(path, " ")
		req, err := http.NewRequestWithContext(s.t.Context(), method, "http://pawl"+"/api/v1/workflow-runs"+path,
			strings.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		out := stevoraAnswer{status: resp.StatusCode}
		if err := json.Unmarshal(text, &out); err != nil {
			s.t.Fatalf("%s %s: %v\n%s", method, path, err, text)
		}
		if out.Success != (out.status < 300) {
			s.t.Errorf("%s %s: %d %s", method, path, out.status, text)
		}
		return out
	}
}

// stevoraTime is how instants are written.
const stevoraTime = "2006-01-02T15:04:05.000000Z07:00"

// stevoraEvent is an event as the API tells it.
type stevoraEvent struct {
	Type    string
	Payload struct{ Error struct{ Message string } }
}

// stevoraTold asks for the events of the run.
func (s *stage) stevoraTold(ask func(method, path string) stevoraAnswer) (all []stevoraEvent) {
	s.t.Helper()
	a := ask("GET", "/"+s.root.String()+"/events")
	if err := json.Unmarshal(a.Data, &all); err != nil || a.status != http.StatusOK || len(all) < 2 {
		s.t.Fatalf("%d %s, %v", a.status, a.Data, err)
	}
	return all
}

// run reads an answer that holds a run.
func (a stevoraAnswer) run(t *testing.T) (r stevoraRun) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.Error.Message)
	}
	if err := json.Unmarshal(a.Data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// conflicts asks for a retry of a run that has not failed, and holds that nothing comes of it.
func (s *stage) conflicts(ask func(method, path string) stevoraAnswer, status string) {
	s.t.Helper()
	path := "/" + s.root.String()
	if got := ask("GET", path).run(s.t); got.Status != status {
		s.t.Errorf("the run is %s, want %s", got.Status, status)
	}
	before := s.run()
	if a := ask("POST", path+"/retry"); a.status != http.StatusConflict || a.Error.Code != "CONFLICT" ||
		!strings.Contains(a.Error.Message, status) {
		s.t.Errorf("a retry of a run that is %s is answered with %d %+v", status, a.status, a.Error)
	}
	if after := s.run(); after.Phase != before.Phase || after.Seq != before.Seq {
		s.t.Errorf("a refused retry changes the run: it was %s and is %s", before.Phase, after.Phase)
	}
}

// stevoraRetryRequest retries a run that has failed: its step has all attempts of its policy again, as often as one
// asks. In each other status that is a conflict, and changes nothing.
func stevoraRetryRequest(t *testing.T) {
	c := stevoraFlow(t, `{"type": "task", "name": "before", "handler": "call"}, `+
		`{"type": "task", "name": "work", "handler": "call", "retry": {"maxAttempts": 2, "backoffMs": 1000}}, `+
		`{"type": "external_event", "name": "paid", "signalType": "payment"}`)
	script := map[string][]try{
		"before": {{run: time.Second}}, "work": {failed, failed, failed, failed, {run: time.Second}},
	}
	retry := func(s *stage, ask func(method, path string) stevoraAnswer) {
		s.t.Helper()
		path := "/" + s.root.String()
		got := ask("GET", path).run(t)
		if got.Status != "FAILED" || got.Error == nil || got.Error.Message != "Step 'work' failed after 2 attempts" {
			t.Fatalf("%+v", got)
		}
		began := len(s.given())
		got = ask("POST", path+"/retry").run(t)
		if got.Status != "PENDING" || got.Error != nil || got.FailedAt != "" {
			t.Errorf("after the retry: %+v", got)
		}
		if step := got.step("work"); step != (stevoraStep{Name: "work", Status: "PENDING"}) {
			t.Errorf("after the retry: %+v", step)
		}
		if step := got.step("before"); step.Status != "COMPLETED" || step.Attempts != 1 {
			t.Errorf("after the retry: %+v", step)
		}
		s.pass(100 * time.Millisecond)
		if n := len(s.given()) - began; n != 1 {
			t.Errorf("a retry begins %d attempts at once", n)
		}
	}
	perform(t, c, script, func(s *stage) {
		ask := s.stevoraServer()
		path := "/" + s.root.String()
		s.pass(100 * time.Millisecond)
		s.conflicts(ask, "RUNNING")
		s.pass(time.Second)
		s.conflicts(ask, "WAITING") // the run waits for the second attempt of work
		s.pass(time.Minute)
		retry(s, ask)
		if step := ask("GET", path).run(t); step.step("work").Status != "FAILED" || step.step("work").Attempts != 1 ||
			step.step("work").NextAt == "" || step.Status != "WAITING" {
			t.Errorf("after the first attempt of the retry: %+v", step)
		}
		s.pass(time.Minute)
		retry(s, ask)
		s.conflicts(ask, "RUNNING")
		s.pass(time.Minute)
		s.conflicts(ask, "WAITING") // the run waits for the payment
		s.operate(core.Operation{Op: core.OpPause})
		s.conflicts(ask, "PAUSED")
		s.operate(core.Operation{Op: core.OpResume})
		paid := ` {"signalType": "payment", "payload": {"paid": 7}}`
		if a := ask("POST", path+"/signals"+paid); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.Error.Message)
		}
		s.pass(time.Second)
		s.conflicts(ask, "COMPLETED")
	}, func(s *stage, r *core.Run) {
		if !strings.Contains(string(r.Output), `"paid":7`) {
			t.Errorf("the run's output is %s", r.Output)
		}
	})
	perform(t, c, script, func(s *stage) {
		ask := s.stevoraServer()
		s.pass(100 * time.Millisecond)
		if a := ask("POST", "/"+s.root.String()+"/cancel"); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.Error.Message)
		}
		s.pass(time.Minute)
		s.conflicts(ask, "CANCELLED")
	}, func(*stage, *core.Run) {})
}
