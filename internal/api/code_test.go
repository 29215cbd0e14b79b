package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestTable checks that each constant of the package that is a code has one row, with statuses that make sense.
func TestTable(t *testing.T) {
	inTable := map[string]bool{}
	for _, c := range api.Codes() {
		if inTable[string(c)] {
			t.Errorf("code %s is in the table twice", c)
		}
		inTable[string(c)] = true
		if s := c.HTTPStatus(); s < 400 || s > 599 {
			t.Errorf("code %s: HTTP status %d is not an error's", c, s)
		}
		if s := c.GRPC(); s < 1 || s > 16 {
			t.Errorf("code %s: %d is not the code of a gRPC error", c, s)
		}
		if s := c.ExitStatus(); s != 1 && s != 2 && s != 3 && s != 124 && s != 130 {
			t.Errorf("code %s: exit status %d is not in the contract", c, s)
		}
	}
	for _, name := range codesInSource(t) {
		if !inTable[name] {
			t.Errorf("code %s is not in the table", name)
		}
	}
	if got := api.Code("of a later version").HTTPStatus(); got != 500 {
		t.Errorf("an unknown code has HTTP status %d", got)
	}
}

// codesInSource reads the values of the constants CodeX of type Code.
func codesInSource(t *testing.T) (codes []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Values) == 1 && strings.HasPrefix(spec.Names[0].Name, "Code") {
			if text, ok := spec.Values[0].(*ast.BasicLit); ok {
				codes = append(codes, strings.Trim(text.Value, `"`))
			}
		}
		return true
	})
	if len(codes) < 20 {
		t.Fatalf("only %d codes found: %v", len(codes), codes)
	}
	return codes
}

func TestErrorKeepsItsChain(t *testing.T) {
	cause := errors.New("the disk is full")
	err := fmt.Errorf("twice wrapped: %w", &api.Error{
		Code: api.CodeStalled, Op: "start", ID: "order-42",
		Err: cause, Hint: "free some space",
	})
	if !errors.Is(err, cause) || !errors.Is(err, api.Sentinel(api.CodeStalled)) ||
		errors.Is(err, api.Sentinel(api.CodeClosed)) {
		t.Error("the chain is cut, or another code matches")
	}
	if got, want := err.Error(), "twice wrapped: start order-42: the disk is full (free some space)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if api.CodeOf(err) != api.CodeStalled || api.CodeOf(nil) != "" || api.CodeOf(cause) != api.CodeInternal {
		t.Error("a wrong code")
	}
	specific := &api.Error{Code: api.CodeMisuse, Message: "this"}
	if errors.Is(specific, &api.Error{Code: api.CodeMisuse, Message: "that"}) ||
		!errors.Is(specific, api.Sentinel(api.CodeMisuse)) {
		t.Error("errors of one code are told apart by their messages")
	}
}

// TestPhasesHaveCodes checks that a run phase that is an error has the code with its exit status.
func TestPhasesHaveCodes(t *testing.T) {
	want := map[api.RunPhase]int{api.RunFailed: 1, api.RunTimedOut: 124, api.RunCancelled: 130, api.RunTerminated: 130}
	for _, p := range api.RunPhases() {
		got := 0
		if c := p.Code(); c != "" {
			got = c.ExitStatus()
		}
		if got != want[p] {
			t.Errorf("a %s run ends with status %d, want %d", p, got, want[p])
		}
	}
}

func TestValuesSurviveJSON(t *testing.T) {
	at := api.At(time.Date(2030, 1, 31, 18, 0, 0, 123_456_789, time.FixedZone("", 3600)))
	in := api.Operation{Operation: api.OpExtend, By: api.Extension(-90 * time.Second), To: at}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text),
		`{"operation":"extend","by":"-1m30s","to":"2030-01-31T17:00:00.123456Z"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var out api.Operation
	if err := json.Unmarshal(text, &out); err != nil || out.By != in.By || out.To != in.To {
		t.Errorf("it became %+v: %v", out, err)
	}
	for _, bad := range []string{`{"to":"tomorrow"}`, `{"by":"ten"}`, `{"to":5}`} {
		if err := json.Unmarshal([]byte(bad), &out); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
