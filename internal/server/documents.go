package server

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
)

// documents adds the description of the API, for programs and for people.
func (s *Server) documents(routes Routes, described *huma.OpenAPI) {
	text := sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(described, "", "  ") })
	page := sync.OnceValues(func() ([]byte, error) { return docsPage(described) })
	routes.Handle(Anyone, "GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		write(w, text)
	})
	if s.cfg.Metrics != nil {
		routes.Handle(api.RoleRead, "GET /metrics", s.metrics)
	}
	routes.Handle(Anyone, "GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		write(w, page)
	})
}

func write(w http.ResponseWriter, text func() ([]byte, error)) {
	b, err := text()
	if err != nil {
		answer(w, newProblem(http.StatusInternalServerError, err.Error(), nil))
		return
	}
	_, _ = w.Write(append(slices.Clip(b), '\n')) // a caller that has gone needs no answer
}

//go:embed docs.html
var docsHTML string

var docsTemplate = template.Must(template.New("docs").Parse(docsHTML))

// documented is one operation on the page for people.
type documented struct {
	Method, Path string
	*huma.Operation
	Fields []field // fields of its body
}

// field is a field of a body.
type field struct {
	Name, Kind, Doc string
	Required        bool
}

// docsPage makes the page for people. It is complete in itself: nothing is loaded from elsewhere.
func docsPage(described *huma.OpenAPI) ([]byte, error) {
	byTag := map[string][]documented{}
	for _, path := range slices.Sorted(maps.Keys(described.Paths)) {
		item := described.Paths[path]
		for method, op := range map[string]*huma.Operation{
			"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete,
		} {
			if op != nil {
				d := documented{method, path, op, fieldsOf(described, op)}
				byTag[op.Tags[0]] = append(byTag[op.Tags[0]], d)
			}
		}
	}
	for _, ops := range byTag {
		slices.SortStableFunc(ops, func(a, b documented) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
	}
	var page bytes.Buffer
	err := docsTemplate.Execute(&page, map[string]any{"Info": described.Info, "Tags": byTag})
	return page.Bytes(), err
}

// fieldsOf returns the fields of an operation's body.
func fieldsOf(described *huma.OpenAPI, op *huma.Operation) []field {
	if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil // it has none, or one that is not JSON
	}
	schema := op.RequestBody.Content["application/json"].Schema
	if schema.Ref != "" {
		schema = described.Components.Schemas.SchemaFromRef(schema.Ref)
	}
	var out []field
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		kind := p.Type
		if kind == "" {
			kind = "any"
		}
		if p.Ref != "" {
			kind = p.Ref[strings.LastIndex(p.Ref, "/")+1:]
		}
		out = append(out, field{name, kind, p.Description, slices.Contains(schema.Required, name)})
	}
	return out
}
