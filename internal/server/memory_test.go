package server

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api/httpapi"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// filled returns text of a size: begin, as many items as fit, and end.
func filled(size int64, begin, item, end string) string {
	n := (int(size) - len(begin) - len(end)) / (len(item) + 1)
	return begin + strings.Repeat(item+",", n-1) + item + end
}

// heavy returns bodies of a size that are small to send and large to decode: every field of a body has its own.
func heavy(b *bed, size int64, s *huma.Schema) []string {
	if s.Ref != "" {
		s = b.server.api.OpenAPI().Components.Schemas.SchemaFromRef(s.Ref)
	}
	out := []string{filled(size, "[", "{}", "]"), filled(size, `{"":{`, `"":[]`, "}}")}
	for name := range s.Properties {
		for _, item := range []string{"{}", "7", `""`} {
			out = append(out, filled(size, `{"`+name+`":[`, item, "]}"))
		}
		out = append(out, filled(size, `{"`+name+`":{`, `"k":7`, "}}"), filled(size, `{"`+name+`":"- [`, "[]", `]"}`))
	}
	slices.Sort(out)
	return out
}

// TestMemoryOfBodies checks that a request takes memory in proportion to its route's bound, whatever is in its body,
// and its answer is short.
func TestMemoryOfBodies(t *testing.T) {
	if nightly.Raced {
		t.Skip("the race detector has memory of its own")
	}
	b := newBed(t)
	routes := 0
	for path, item := range b.server.api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{
			"POST": item.Post, "PUT": item.Put, "PATCH": item.Patch,
		} {
			if op == nil || op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
				continue // a body that is no JSON is stored as it comes
			}
			routes++
			size := b.server.bodyBound(method + " " + path)
			most := uint64(size)*60 + 10<<20
			if strings.Contains(path, "/policies/") || strings.Contains(path, "/flows/") {
				most = uint64(size) * 700 // YAML, of which few are read at once
			}
			bodies := heavy(b, size, op.RequestBody.Content["application/json"].Schema)
			if routes%nightly.Few(4, 1) != 0 {
				continue
			}
			bodies = bodies[routes%len(bodies):]
			bodies = bodies[:min(len(bodies), 3)]
			if size > shortBody {
				bodies = bodies[:1]
			}
			for _, body := range bodies {
				b.memoryOf(method, strings.NewReplacer("{", "", "}", "").Replace(path), body, most)
			}
		}
	}
	if routes < 25 {
		t.Errorf("only %d routes have a body", routes)
	}
}

// memoryOf checks what a request takes.
func (b *bed) memoryOf(method, path, body string, most uint64) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, _, answer := b.plain(method, path, body, "Content-Type", "application/json")
	runtime.ReadMemStats(&after)
	what := fmt.Sprintf("%s %s with %d bytes %.30s…", method, path, len(body), body)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		b.Errorf("%s: took %d MB, more than %d", what, took>>20, most>>20)
	}
	if status >= http.StatusInternalServerError || len(answer) > 16<<10 || strings.Count(answer, `"detail"`) > 22 {
		b.Errorf("%s: %d with %d bytes: %.300s", what, status, len(answer), answer)
	}
}

// TestBoundsByRoute checks that a body that is longer than its route takes is refused before it is decoded.
func TestBoundsByRoute(t *testing.T) {
	b := newBed(t)
	long := `{"policy":"` + strings.Repeat("x", shortBody) + `"}`
	status, header, answer := b.plain("POST", httpapi.Base+"/policies/lint", long, "Content-Type", "application/json")
	b.problem("a long policy", status, header, answer, http.StatusRequestEntityTooLarge, "too_large", "65536 bytes")
	input := `{"workflow":"order","input":{"n":1,"more":"` + strings.Repeat("x", 1<<20) + `"}}`
	if status, _, answer := b.plain("POST", httpapi.Base+"/runs", input); status != http.StatusCreated {
		t.Errorf("a large input: %d %s", status, answer)
	}
	reports := filled(8<<20, `{"reports":[`, `{}`, `]}`)
	status, header, answer = b.plain("POST", httpapi.Base+"/tasks/report", reports)
	b.problem("many reports", status, header, answer, http.StatusBadRequest, "invalid", "/reports", "1000")
}

// TestBodiesInFlight checks that all bodies that are in the server's hands share a bound, and one token has at most
// half of it.
func TestBodiesInFlight(t *testing.T) {
	u := newUsage(Limits{})
	u.limits.Bytes = 100
	ada, bob := &caller{}, &caller{}
	ada.token.ID, bob.token.ID = "a", "b"
	endAda, p := u.beginBody(ada, 50)
	if p != nil {
		t.Fatal(p)
	}
	if _, p := u.beginBody(ada, 1); p == nil || p.Status != http.StatusTooManyRequests {
		t.Errorf("more than half of the bound for one token: %v", p)
	}
	endBob, p := u.beginBody(bob, 40)
	if p != nil {
		t.Error(p)
	}
	if _, p := u.beginBody(nil, 11); p == nil || p.Status != http.StatusTooManyRequests {
		t.Errorf("more than the bound: %v", p)
	}
	endAda()
	endBob()
	end, p := u.beginBody(nil, 100)
	if p != nil {
		t.Fatal(p)
	}
	end()
	if len(u.bytesOf) > 0 || u.bytes != 0 {
		t.Errorf("%d bytes are left, %v", u.bytes, u.bytesOf)
	}
}
