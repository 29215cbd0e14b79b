package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/server/stevoraapi"
)

// secretWord is in everything of the default namespace that a caller could read.
const secretWord = "crimson"

// walls are a server with the namespaces default and blue, and what there is in default.
type walls struct {
	*guarded
	blue    *bed
	ids     map[string]string    // ids of default's things, by the part of a path that names them
	strange map[string]api.Token // tokens of blue, by role
	whole   api.Token            // the token of an admin of all namespaces
	attempt string               // the token of an attempt in default
}

const crimsonFlow = `pawl: 1
name: order
steps:
  - {name: crimson, task: {queue: mail, type: Send, input: {to: crimson}}}
  - {name: approval, wait: {event: crimson}}
output: crimson
`

func newWalls(t *testing.T) *walls {
	t.Helper()
	routes := func(r Routes, svc api.Service) {
		stevoraapi.Routes(r.Handle, svc, flows{"order": orderFlow}.Find)
	}
	w := &walls{strange: map[string]api.Token{}}
	w.guarded = newGuarded(t, func(c *Config) { c.Routes = routes })
	w.blue = newBedOn(t, memory.New(), func(c *Config) {
		c.Access, c.Guarded, c.Namespace, c.Routes = w.keeper, true, "blue", routes
	})
	w.server.AddNamespace(w.blue.server)
	w.withWebhooks()
	w.blue.withWebhooks()
	for _, role := range api.Roles() {
		w.strange[role] = w.make(api.TokenRequest{Name: "my " + role, Role: role, Namespace: "blue"})
	}
	w.whole = w.make(api.TokenRequest{Name: "operator", Role: api.RoleAdmin, Namespace: api.AllNamespaces})
	w.fill()
	return w
}

func (w *walls) make(r api.TokenRequest) api.Token {
	w.Helper()
	token, err := w.keeper.CreateToken(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	return token
}

// fill puts one thing of each sort into the default namespace.
func (w *walls) fill() {
	w.Helper()
	ctx := w.Context()
	started, err := w.embedded.Start(ctx, api.StartRequest{
		Definition: definition(crimsonFlow), WorkflowID: "crimson-1", Labels: map[string]string{"of": "crimson"},
	})
	if err != nil {
		w.Fatal(err)
	}
	hook, err := w.server.cfg.Webhooks.AddWebhook(ctx, api.WebhookRequest{
		Name: "crimson", URL: "https://example.com/crimson", Events: []string{"*"},
	})
	if err != nil {
		w.Fatal(err)
	}
	tasks, err := w.queues.Poll(ctx, api.PollRequest{Queue: "mail", Worker: "crimson", Max: 1})
	if err != nil || len(tasks) != 1 {
		w.Fatalf("%v, %v", tasks, err)
	}
	secret := w.make(api.TokenRequest{Name: "crimson", Role: api.RoleRead})
	synctest.Wait()
	deliveries, err := w.server.cfg.Webhooks.Deliveries(ctx, hook.Name, api.DeliveryQuery{})
	if err != nil || len(deliveries.Deliveries) == 0 {
		w.Fatalf("%v, %v", deliveries, err)
	}
	w.attempt = tasks[0].Task
	w.ids = map[string]string{
		"{run}": started.Run, "{id}": started.Run, "{step}": "crimson", "{attempt}": "1",
		"{definition}": definition(crimsonFlow).ID, "{webhook}": hook.Name, "{task}": tasks[0].Task,
		"{delivery}": deliveries.Deliveries[0].ID, "{token}": secret.ID, "{operation}": "cancel",
		"{schedule}": "crimson",
	}
}

// bodies returns valid requests, by the path's end; elsewhere an empty object is one. Requests that select runs
// select all of them.
func (w *walls) bodies() map[string]string {
	return map[string]string{
		"/api/v1/runs": `{"workflow":"order"}`, "/api/v1/workflow-runs": `{"workflowType":"order"}`,
		"/forecast": `{"operation":{"kind":"cancel"}}`, "/runs/{run}/events": `{"name":"crimson"}`,
		"/signals": `{"signalType":"crimson"}`, "/restart": `{}`, "/extend": `{"by":"1h"}`,
		"/set-policy": `{"policy":{"retry":"fixed(2, 1s)"}}`, "/bulk/{operation}": `{"query":{"workflow":"order"}}`,
		"/prune": `{"olderThan":"0s"}`, "/tasks/poll": `{"queue":"mail","worker":"w","max":10}`,
		"/tasks/report": `{"reports":[{"task":"` + w.attempt + `","kind":"complete"}]}`,
		"/tokens":       `{"name":"new","role":"read"}`, "/replay": `{}`, "/clock": `{"by":"1h"}`,
		"/webhooks":           `{"name":"mine","url":"https://example.com/x"}`,
		"/webhooks/{webhook}": `{"url":"https://example.com/mine"}`,
		"/explain":            `{"policy":{"retry":"fixed(2, 1s)"}}`,
	}
}

// with sends a request with a token, and gives up an answer that does not end.
func (w *walls) with(token api.Token, method, path, body string, header ...string) (int, string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://pawl"+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token.Token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DialContext: w.listener.Dial}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body) // a stream is cut
	return res.StatusCode, string(text)
}

// state returns everything of the default namespace, as text.
func (w *walls) state() string {
	w.Helper()
	ctx := w.Context()
	var out bytes.Buffer
	add := func(v any, err error) {
		text, failed := json.Marshal(v)
		if err != nil || failed != nil {
			w.Fatal(err, failed)
		}
		fmt.Fprintf(&out, "%s\n", text)
	}
	history, err := w.embedded.History(ctx, w.ids["{run}"])
	add(history, err)
	page, err := w.embedded.Runs(ctx, api.Query{})
	add(page, err)
	hook, err := w.server.cfg.Webhooks.Webhook(ctx, "crimson")
	add(hook, err)
	tokens, err := w.keeper.Within(api.DefaultNamespace).Tokens(ctx)
	add(tokens, err)
	found, err := w.journal.(journal.Documents).FindDocuments(ctx, "idempotency/", "idempotency0", false, 1000)
	add(found, err)
	return out.String()
}

// patterns returns every route of the description, and those that it does not describe.
func (w *walls) patterns() []string {
	w.Helper()
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	_, _, text := w.plain("GET", "/openapi.json", "")
	if err := json.Unmarshal([]byte(text), &described); err != nil || len(described.Paths) < 40 {
		w.Fatalf("%d paths, %v", len(described.Paths), err)
	}
	for path, operations := range described.Paths {
		for method := range operations {
			if pattern := strings.ToUpper(method) + " " + path; w.server.roles[pattern] == "" {
				w.Errorf("no role is stated for %s", pattern)
			}
		}
	}
	all := slices.Sorted(maps.Keys(w.server.roles)) // a test holds it against the description
	return slices.DeleteFunc(all, func(p string) bool { return w.server.roles[p] == Anyone || p == "GET /metrics" })
}

// TestWalls checks that no request with a token of another namespace, even with the very ids of this one, shows or
// changes anything of this one.
func TestWalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalls(t)
		before := w.state()
		for _, pattern := range w.patterns() {
			method, path, _ := strings.Cut(pattern, " ")
			concrete := path
			for part, id := range w.ids {
				concrete = strings.ReplaceAll(concrete, part, id)
			}
			body, longest := "{}", 0
			for end, given := range w.bodies() {
				if strings.HasSuffix(path, end) && len(end) > longest {
					body, longest = given, len(end)
				}
			}
			if method == http.MethodGet {
				body = ""
			}
			for _, role := range api.Roles() {
				w.tryWall(role, method, path, concrete, body)
			}
		}
		if after := w.state(); after != before {
			t.Errorf("the namespace was changed from outside:\n%s\n%s", before, after)
		}
	})
}

// unnamed reports whether a request is about many things, and names none in its path.
func unnamed(path string) bool {
	return !strings.Contains(path, "{") || strings.HasSuffix(path, "/bulk/{operation}")
}

func (w *walls) tryWall(role, method, path, concrete, body string) {
	w.Helper()
	what := method + " " + path + " as " + role
	status, text := w.with(w.strange[role], method, concrete, body)
	allowed := allows[w.server.roles[method+" "+path]][role]
	switch {
	case !allowed && status != http.StatusForbidden:
		w.Errorf("%s: %d %s", what, status, text)
	case status >= 500, allowed && status == http.StatusForbidden, allowed && status == http.StatusUnauthorized:
		w.Errorf("%s: %d %s", what, status, text)
	case allowed && !unnamed(path) && status < 400 && !strings.Contains(text, `"error":`):
		w.Errorf("%s: what another namespace has is there: %d %s", what, status, text)
	}
	if path == "/api/v1/audit" { // it has what these tokens have asked for, and that of no others
		if strings.Contains(text, `"namespace":"default"`) {
			w.Errorf("%s: %s", what, text)
		}
		return
	}
	for _, said := range append(slices.Collect(maps.Values(w.ids)), concrete, w.attempt) {
		if len(said) > 4 && strings.Contains(concrete+body, said) {
			text = strings.ReplaceAll(text, said, "") // the caller has said it itself
		}
	}
	if strings.Contains(concrete+body, w.attempt) {
		text = strings.ReplaceAll(text, w.ids["{run}"], "") // the token of an attempt has its run
	}
	text = strings.ReplaceAll(text, `"crimson"`, "")
	for _, secret := range append(slices.Collect(maps.Values(w.ids)), secretWord, w.attempt) {
		if len(secret) > 8 && strings.Contains(text, secret) || strings.Contains(text, secretWord) {
			w.Errorf("%s: the answer has %s: %s", what, secret, text)
		}
	}
}

// TestWallsOfStreams checks that a stream and a poll that are open hear nothing of another namespace.
func TestWallsOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalls(t)
		answers := make(chan string, 2)
		for _, ask := range [][3]string{
			{"GET", "/api/v1/events", ""},
			{"POST", "/api/v1/tasks/poll", `{"queue":"mail","worker":"w","max":10,"wait":"900ms"}`},
		} {
			go func() {
				_, text := w.with(w.strange[api.RoleAdmin], ask[0], ask[1], ask[2])
				answers <- text
			}()
		}
		synctest.Wait()
		w.mail("1h")
		if _, text := w.with(w.whole, "POST", "/api/v1/runs", `{"workflow":"order","workflowId":"of-blue"}`,
			httpapi.NamespaceHeader, "blue"); !strings.Contains(text, "run") {
			t.Fatal(text)
		}
		heard := <-answers + <-answers
		foreign := strings.Contains(heard, secretWord) || strings.Contains(heard, "ada")
		if foreign || !strings.Contains(heard, "of-blue") {
			t.Errorf("heard: %s", heard)
		}
	})
}

// TestTokensOfAllNamespaces checks that a token for all namespaces works in the one that the request names, else in the
// default one.
func TestTokensOfAllNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalls(t)
		start := `{"workflow":"order","workflowId":"of-blue"}`
		path := "/api/v1/runs/" + w.ids["{run}"]
		for _, c := range []struct {
			token        api.Token
			method, path string
			body, name   string
			status       int
			says         string
		}{
			{w.whole, "GET", path, "", "", 200, "crimson"},
			{w.whole, "GET", path, "", "default", 200, "crimson"},
			{w.whole, "GET", path, "", "blue", 404, "there is no run"},
			{w.whole, "GET", path, "", "green", 404, "no such namespace"},
			{w.whole, "GET", path, "", "../default", 404, "no such namespace"},
			{w.whole, "POST", "/api/v1/runs", start, "blue", 201, "run"},
			{w.whole, "GET", "/api/v1/runs/of-blue", "", "", 404, "there is no run"},
			{w.whole, "GET", "/api/v1/runs/of-blue", "", "blue", 200, "of-blue"},
			{w.strange[api.RoleRead], "GET", "/api/v1/runs/of-blue", "", "", 200, "of-blue"},
			{w.strange[api.RoleRead], "GET", "/api/v1/runs/of-blue", "", "blue", 200, "of-blue"},
			{w.strange[api.RoleRead], "GET", path, "", "default", 403, `for the namespace \"blue\"`},
			{w.strange[api.RoleRead], "GET", path, "", "green", 403, `for the namespace \"blue\"`},
			{w.strange[api.RoleAdmin], "POST", "/api/v1/runs", `{"flow":"pawl: 1"}`, "", 403, "for one namespace"},
			{w.tokens[api.RoleAdmin], "POST", "/api/v1/runs", `{"flow":"pawl: 1"}`, "", 403, "for one namespace"},
			{w.whole, "POST", "/api/v1/runs", `{"flow":"pawl: 1"}`, "blue", 400, "flow.yaml"},
			{w.strange[api.RoleAdmin], "GET", "/api/v1/audit", "", "", 200, `"namespace":"blue"`},
			{
				w.strange[api.RoleAdmin], "POST", "/api/v1/tokens", `{"name":"a","role":"read","namespace":"default"}`,
				"", 403, "of the namespace",
			},
			{
				w.strange[api.RoleAdmin], "POST", "/api/v1/tokens", `{"name":"a","role":"read","namespace":"*"}`,
				"", 403, "of the namespace",
			},
			{
				w.strange[api.RoleAdmin], "POST", "/api/v1/tokens", `{"name":"a","role":"read"}`, "", 201,
				`"namespace":"blue"`,
			},
			{w.whole, "POST", "/api/v1/tokens", `{"name":"all","role":"read","namespace":"*"}`, "", 201, `"*"`},
			{w.whole, "POST", "/api/v1/tokens", `{"name":"b","role":"read"}`, "blue", 201, `"namespace":"blue"`},
			{w.whole, "GET", "/api/v1/tokens", "", "", 200, `"namespace":"*"`},
		} {
			var header []string
			if c.name != "" {
				header = []string{httpapi.NamespaceHeader, c.name}
			}
			synctest.Wait() // the audit log has the requests before this one
			status, text := w.with(c.token, c.method, c.path, c.body, header...)
			if status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%s %s %s as %s in %q: %d %s, want %d %s", c.method, c.path, c.body, c.token.Name, c.name,
					status, text, c.status, c.says)
			}
		}
		synctest.Wait()
		status, text := w.with(w.strange[api.RoleAdmin], "GET", "/api/v1/audit", "")
		if status != 200 || strings.Contains(text, `"default"`) {
			t.Errorf("the audit log of one namespace: %d %s", status, text)
		}
	})
}

// TestKeysOfNamespaces checks that the same idempotency key in two namespaces is two requests.
func TestKeysOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalls(t)
		body := `{"reason":"none"}`
		path := "/api/v1/runs/nothing/pause"
		_, first := w.with(w.whole, "POST", path, body, keyHeader, "k")
		_, again := w.with(w.whole, "POST", path, body+" ", keyHeader, "k")
		_, other := w.with(w.whole, "POST", path, body+" ", keyHeader, "k", httpapi.NamespaceHeader, "blue")
		if !strings.Contains(again, "another request") || strings.Contains(first+other, "another request") {
			t.Errorf("%s\n%s\n%s", first, again, other)
		}
	})
}
