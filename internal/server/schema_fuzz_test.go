package server

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

var (
	fuzzFor  = flag.Duration("fuzz-for", 0, "for how long requests are made of the description; 0: some hundred")
	fuzzSeed = flag.Uint64("fuzz-seed", 1, "of the first round of requests that are made of the description")
)

// described is the part of the description that requests are made of.
type described struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name, In string
			Required bool
			Schema   *shape
		}
		RequestBody struct {
			Content map[string]struct{ Schema *shape }
		}
	}
	Components struct{ Schemas map[string]*shape }
}

// shape is a JSON Schema.
type shape struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Properties map[string]*shape
	Required   []string
	Items      *shape
	OneOf      []*shape
	AnyOf      []*shape
	Extra      any `json:"additionalProperties"`
}

// maker makes requests: most are valid, and some are broken in one place or more.
type maker struct {
	*rand.Rand
	of    *described
	words []string // words with a meaning for the server, such as ids
	ids   map[string]string
	wrong float64 // probability of a value that contradicts the description
	fresh int
}

// hints are values that the server takes, by the names of fields, since the description says of most texts only that
// they are texts.
var hints = map[string][]any{
	"by": {"1h", "5m"}, "to": {"2100-01-02T03:04:05Z"}, "wait": {"1s"}, "role": {"read", "operate"}, "queue": {"mail"},
	"worker": {"w"}, "url": {"https://example.com/x"}, "workflow": {"order"}, "operation": {"pause", "resume"},
	"policy": {map[string]any{"retry": "fixed(2, 1s)"}}, "query": {map[string]any{"workflow": "order"}},
	"olderThan": {"1h"}, "expiresIn": {"1h"}, "overlap": {"1h"}, "kind": {"heartbeat", "complete", "pause"},
	"events": {[]string{"run.failed"}}, "reason": {"because"}, "actor": {"me"}, "limit": {5, 10}, "max": {1, 3},
	"failure": {map[string]any{"kind": "error", "message": "no"}}, "labels": {map[string]any{"a": "b"}},
	"startToClose": {"1m"}, "steps": {[]string{"crimson"}}, "from": {"crimson"}, "event": {"crimson"},
}

// pick returns one of some values.
func pick[T any](m *maker, all ...T) T { return all[m.IntN(len(all))] }

// stumblers are texts that programs stumble over.
var stumblers = []string{
	"", " ", "\x00", "a\r\nSet-Cookie: b", "../../etc/passwd", "..%2f..", "%", "%zz", "\xff\xfe", "\u202e", "𝒳", "null",
	"-1", "0", "1e999", "9223372036854775808", "NaN", "@last", "@", "*", "'; DROP TABLE runs_data; --", "${{ 1/0 }}",
	"{", "[", "\"", "<script>", strings.Repeat("a", 300), strings.Repeat("[", 2000), "0001-01-01T00:00:00Z",
	"9999-12-31T23:59:59.999999999Z", "-5s", "1000000h", "1y", "evt_", "AAAA", "pawl_0_0", "a=b", "=", "a b", "é",
}

// text returns something for a text.
func (m *maker) text() string {
	switch n := m.Float64(); {
	case n < m.wrong:
		return pick(m, stumblers...)
	case n < 0.8:
		return pick(m, m.words...)
	default:
		return pick(m, "1m", "30s", "2026-01-02T03:04:05Z", "x", "order", "approved", "first", "fixed(3, 1s)", "1")
	}
}

// value returns a value for a schema.
func (m *maker) value(s *shape, depth int) any {
	if s == nil || depth > 6 || m.Float64() < m.wrong/2 {
		return pick[any](m, nil, true, -1, 1e300, m.text(), []any{m.text()}, map[string]any{m.text(): m.text()})
	}
	if s.Ref != "" {
		return m.value(m.of.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]], depth+1)
	}
	if of := slices.Concat(s.OneOf, s.AnyOf); len(of) > 0 {
		return m.value(pick(m, of...), depth+1)
	}
	if len(s.Enum) > 0 {
		return pick(m, s.Enum...)
	}
	kind := s.Type
	if several, ok := kind.([]any); ok && len(several) > 0 {
		kind = pick(m, several...)
	}
	switch kind {
	case "object":
		return m.object(s, depth)
	case "array":
		out := []any{}
		for range m.IntN(4) {
			out = append(out, m.value(s.Items, depth+1))
		}
		return out
	case "integer", "number":
		return pick[any](m, 0, 1, 2, 7, 100, -1, 1<<40, 0.5)
	case "boolean":
		return m.IntN(2) == 0
	case "null":
		return nil
	default:
		return m.text()
	}
}

func (m *maker) object(s *shape, depth int) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		switch required := slices.Contains(s.Required, name); {
		case required && m.Float64() < m.wrong/2, !required && m.Float64() > 0.2:
		case name == "name" && m.Float64() > m.wrong:
			m.fresh++
			out[name] = fmt.Sprintf("n%d", m.fresh)
		case hints[name] != nil && m.Float64() > m.wrong:
			out[name] = pick(m, hints[name]...)
		default:
			out[name] = m.value(s.Properties[name], depth+1)
		}
	}
	if m.Float64() < m.wrong/4 || s.Extra != nil && s.Extra != false {
		out[m.text()] = m.text()
	}
	return out
}

// request returns a request for an endpoint.
func (m *maker) request(method, path string) *http.Request {
	op := m.of.Paths[path][strings.ToLower(method)]
	query := url.Values{}
	header := http.Header{}
	for _, p := range op.Parameters {
		text := m.text()
		if v := m.value(p.Schema, 5); v != nil && m.IntN(2) == 0 {
			text = fmt.Sprint(v)
		}
		if known := m.ids["{"+p.Name+"}"]; p.In == "path" && known != "" && m.Float64() > m.wrong {
			text = known
		} else if hints[p.Name] != nil && m.Float64() > m.wrong {
			text = fmt.Sprint(pick(m, hints[p.Name]...))
		}
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(text))
		case !p.Required && m.IntN(5) > 0:
		case p.In == "query":
			query.Add(p.Name, text)
		default:
			header[http.CanonicalHeaderKey(p.Name)] = []string{text} // also what no client could send
		}
	}
	if m.Float64() < m.wrong/4 {
		query.Add(m.text(), m.text())
	}
	if m.IntN(8) == 0 {
		header.Set(keyHeader, m.text())
	}
	body := ""
	if s := op.RequestBody.Content["application/json"].Schema; s != nil || m.IntN(20) == 0 {
		text, err := json.Marshal(m.value(s, 0))
		if body = string(text); err != nil || m.Float64() < m.wrong/4 {
			body = pick(m, stumblers...)
		}
		if m.Float64() < m.wrong/4 && body != "" {
			body = body[:m.IntN(len(body))]
		}
		header.Set("Content-Type", "application/json")
	}
	r := httptest.NewRequest(method, "http://pawl/", strings.NewReader(body))
	r.Header = header
	r.URL = &url.URL{Scheme: "http", Host: "pawl", RawQuery: query.Encode()}
	if unescaped, err := url.PathUnescape(path); err == nil {
		r.URL.Path, r.URL.RawPath = unescaped, path
	}
	return r
}

// TestRequestsOfTheDescription checks that no request made from the description, valid or broken, makes the server
// fail, and that every refusal is a problem. One round has a server of its own. To look for more: -fuzz-for 10m; to
// see one round again: -fuzz-seed N.
func TestRequestsOfTheDescription(t *testing.T) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	of := &described{}
	if err := json.Unmarshal(text, of); err != nil {
		t.Fatal(err)
	}
	var endpoints [][2]string
	for path, operations := range of.Paths {
		for method := range operations {
			endpoints = append(endpoints, [2]string{strings.ToUpper(method), path})
		}
	}
	slices.SortFunc(endpoints, func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	succeeded, total := map[string]bool{}, 0
	for seed, from := *fuzzSeed, time.Now(); !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			total += fuzzRound(t, of, endpoints, seed, succeeded)
		})
		if *fuzzFor == 0 && seed >= *fuzzSeed+2 || *fuzzFor > 0 && time.Since(from) > *fuzzFor {
			break
		}
	}
	if len(succeeded) < len(endpoints)/2 && !t.Failed() {
		t.Errorf("only %d of %d endpoints ever took a request", len(succeeded), len(endpoints))
	}
	for _, e := range endpoints {
		if !succeeded[e[0]+" "+e[1]] {
			t.Logf("never taken: %s %s", e[0], e[1])
		}
	}
	t.Logf("%d requests; %d of %d endpoints took some", total, len(succeeded), len(endpoints))
}

// fuzzRound sends some requests for each endpoint to a new server, and returns how many.
func fuzzRound(t *testing.T, of *described, endpoints [][2]string, seed uint64, succeeded map[string]bool) (n int) {
	w := newWalls(t)
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 0)), of: of, wrong: pick(&maker{
		Rand: rand.New(rand.NewPCG(seed, 1)),
	}, 0.02, 0.1, 0.4)}
	m.ids = w.ids
	m.words = slices.Sorted(maps.Values(w.ids))
	m.words = append(m.words, "order", "crimson-1", "approval", "mail", "w", "ops",
		"read", "admin", "worker", "running")
	for range 10 {
		started, err := w.embedded.Start(t.Context(), api.StartRequest{Definition: definition(crimsonFlow)})
		if err != nil {
			t.Fatal(err)
		}
		m.ids["{run}"] = started.Run // those before it may have ended by now
		m.words = append(m.words, started.Run)
		m.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] })
		for _, e := range endpoints {
			r := m.request(e[0], e[1])
			token := pick(m, w.whole, w.whole, w.whole, w.tokens[api.RoleOperate], w.strange[api.RoleAdmin])
			r.Header.Set("Authorization", "Bearer "+token.Token)
			if w.tryRequest(r, seed) < 300 {
				succeeded[e[0]+" "+e[1]] = true
			}
			n++
		}
	}
	return n
}

// tryRequest sends a request and checks the answer.
func (w *walls) tryRequest(r *http.Request, seed uint64) int {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute) // streams end with it
	defer cancel()
	rec := httptest.NewRecorder()
	what := fmt.Sprintf("-fuzz-seed %d: %s %s %v %v", seed, r.Method, r.URL, r.Header, r.Body)
	w.server.http.Handler.ServeHTTP(rec, r.WithContext(ctx))
	for name, values := range rec.Header() {
		if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
			w.Errorf("%s: the answer's header has a line of its own: %q", what, rec.Header())
		}
	}
	if rec.Code < 400 {
		return rec.Code
	}
	var p httpapi.Problem
	err := json.Unmarshal(rec.Body.Bytes(), &p)
	if rec.Code >= 500 || err != nil || p.Status != rec.Code || p.Code == "" || p.Detail == "" {
		w.Errorf("%s: %d %s", what, rec.Code, rec.Body)
	}
	return rec.Code
}
