package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/api/httpapi"
)

const (
	// shortBody limits a body, in bytes, unless its route takes more.
	shortBody = 64 << 10
	// payloadBody limits a body with one payload, which has 2 MiB at most, and the fields beside it.
	payloadBody = 2<<20 + shortBody
	// flowBody limits a body with the text of a flow, and flowText that text if it is one of several fields. The reader
	// of YAML takes some 750 bytes for each byte.
	flowBody = flowText + shortBody
	flowText = 512 << 10
	// mostBytes bounds all bodies that are in the server's hands at once. Decoded, a body is some 40 times as large.
	mostBytes = 32 << 20
	// mostValues limits the number of values in a body, without those in free-form JSON.
	mostValues = 20_000
	// mostNested bounds how deep these are in one another.
	mostNested = 100
	// mostFaults is how many faults of a request are listed.
	mostFaults = 20
)

// payloads are the routes whose bodies have a payload, texts those with the text of a flow. batches have as many items
// as fit.
var (
	payloads = []string{
		"POST /api/v1/runs", "POST /api/v1/runs/", "POST /api/v1/workflow-runs", "POST /api/v1/workflow-runs/",
		"POST /api/v1/tasks/{task}/", "POST /api/v1/bulk/", "POST /api/v1/bodies/join",
	}
	texts   = []string{"POST /api/v1/flows/validate", "PUT /api/v1/flows/{flow}"}
	batches = []string{"POST /api/v1/tasks/report", "POST /api/v1/bodies/decisions"}
)

// bodyBound returns how many bytes the body of a request may have. A pattern that ends with / covers those below.
func (s *Server) bodyBound(pattern string) int64 {
	has := func(patterns []string) bool {
		for _, p := range patterns {
			if pattern == p || strings.HasSuffix(p, "/") && strings.HasPrefix(pattern, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has(batches):
		return s.cfg.MaxBody
	case has(payloads):
		return min(payloadBody, s.cfg.MaxBody)
	case has(texts):
		return min(flowBody, s.cfg.MaxBody)
	default:
		return min(shortBody, s.cfg.MaxBody)
	}
}

// shapeOf returns the schema of the body that a route takes, or nil if it takes none, or checks it itself.
func (s *Server) shapeOf(pattern string) *huma.Schema {
	method, path, _ := strings.Cut(pattern, " ")
	item := s.api.OpenAPI().Paths[path]
	if item == nil {
		return nil
	}
	op := map[string]*huma.Operation{
		http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch,
	}[method]
	if op == nil || op.RequestBody == nil {
		return nil
	}
	if content := op.RequestBody.Content["application/json"]; content != nil {
		return content.Schema
	}
	return nil
}

// checkShape compares a body with the schema of its route, before it is decoded as a whole. Text that is not JSON is
// refused by the route.
func (s *Server) checkShape(pattern, said string, body []byte) *httpapi.Problem {
	shape := s.shapeOf(pattern)
	if shape == nil || len(body) == 0 {
		return nil
	}
	kind, _, _ := strings.Cut(said, ";")
	if kind != "" && kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return httpapi.Invalid(http.StatusUnsupportedMediaType,
			fmt.Sprintf("the body is said to be %s: send JSON", kind))
	}
	schemas := s.api.OpenAPI().Components.Schemas
	o := &outline{dec: json.NewDecoder(bytes.NewReader(body)), schemas: schemas, left: mostValues}
	v, err := o.value(shape, mostNested)
	var full *overfull
	switch {
	case errors.As(err, &full):
		return httpapi.Invalid(http.StatusBadRequest, "the request is not valid", httpapi.Fault{
			Pointer: strings.Join(o.at, ""), Detail: full.detail,
		})
	case err != nil:
		return nil //nolint:nilerr // what is no JSON is refused when it is read
	}
	found := &huma.ValidateResult{}
	path := huma.NewPathBuffer([]byte{}, 0)
	path.Push("body")
	huma.Validate(schemas, shape, path, huma.ModeWriteToServer, v, found)
	if len(found.Errors) == 0 {
		return nil
	}
	return newProblem(http.StatusBadRequest, "validation failed", found.Errors)
}

// outline reads of a body what its schema speaks of. Free-form JSON in it is skipped.
type outline struct {
	dec     *json.Decoder
	schemas huma.Registry
	left    int      // values that may follow
	at      []string // the place of the reader, as the parts of a JSON pointer
}

// overfull is the error of a body that contains too much.
type overfull struct{ detail string }

func (e *overfull) Error() string { return e.detail }

// skipped reads a value and discards it.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// value reads the next value, which may have other values within it to a depth.
func (o *outline) value(s *huma.Schema, depth int) (any, error) {
	for s != nil && s.Ref != "" {
		s = o.schemas.SchemaFromRef(s.Ref)
	}
	if o.left--; o.left < 0 {
		return nil, &overfull{fmt.Sprintf("the body has more than %d values", mostValues)}
	}
	if s == nil || s.Type == "" {
		return struct{}{}, o.dec.Decode(&skipped{})
	}
	if depth == 0 {
		return nil, &overfull{fmt.Sprintf("nested more than %d levels deep", mostNested)}
	}
	token, err := o.dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		return o.list(s, depth)
	case json.Delim('{'):
		return o.object(s, depth)
	default:
		return token, nil
	}
}

// list reads the rest of a list. It stops at once where there are too many items.
func (o *outline) list(s *huma.Schema, depth int) (any, error) {
	out := []any{}
	for o.dec.More() {
		if s.MaxItems != nil && len(out) == *s.MaxItems {
			return nil, &overfull{fmt.Sprintf("there are more than %d items", *s.MaxItems)}
		}
		o.at = append(o.at, fmt.Sprintf("/%d", len(out)))
		v, err := o.value(s.Items, depth-1)
		if err != nil {
			return nil, err
		}
		o.at = o.at[:len(o.at)-1]
		out = append(out, v)
	}
	_, err := o.dec.Token()
	return out, err
}

// object reads the rest of an object.
func (o *outline) object(s *huma.Schema, depth int) (any, error) {
	out := map[string]any{}
	for o.dec.More() {
		key, err := o.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		field := s.Properties[name]
		if more, ok := s.AdditionalProperties.(*huma.Schema); ok && field == nil {
			field = more
		}
		o.at = append(o.at, "/"+name)
		v, err := o.value(field, depth-1)
		if err != nil {
			return nil, err
		}
		o.at = o.at[:len(o.at)-1]
		out[name] = v
	}
	_, err := o.dec.Token()
	return out, err
}

// tooLarge returns the problem of a body that is longer than its route takes.
func tooLarge(most int64) *httpapi.Problem {
	p := httpapi.Invalid(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", most))
	p.Code, p.Hint = api.CodeTooLarge, "store what is large elsewhere and pass a reference"
	return p
}
