package engine

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestEveryRefusalHasACode: no code of the machine is unknown to callers, and none loses its meaning on the way.
func TestEveryRefusalHasACode(t *testing.T) {
	for c := core.CodeInvalid; !strings.HasPrefix(c.String(), "unknown"); c++ {
		refusal := &core.Error{Code: c, Op: "pause", Msg: "the run is closing"}
		err := refused("pause", core.RunID{1}, fmt.Errorf("machine: %w", refusal))
		if code := CodeOf(err); code == api.CodeInternal || code == "" {
			t.Errorf("code %s of the machine is %q to a caller", c, code)
		}
		var kept *core.Error
		if !errors.As(err, &kept) || kept != refusal {
			t.Errorf("code %s: the refusal is not in the chain", c)
		}
		if text := err.Error(); strings.Count(text, "pause") != 1 || !strings.HasSuffix(text, ": the run is closing") {
			t.Errorf("code %s: %s", c, text)
		}
		if CodeOf(refusal) != CodeOf(err) {
			t.Errorf("code %s: a bare refusal has another code", c)
		}
	}
}

// TestEveryJournalErrorHasACode: each error that the journal's package declares stands in the list.
func TestEveryJournalErrorHasACode(t *testing.T) {
	listed := 0
	for _, m := range translations {
		if strings.HasPrefix(m.err.Error(), "journal:") {
			listed++
		}
		err := failure("start", "order-42", fmt.Errorf("append: %w", m.err))
		if code := CodeOf(err); code != m.code || CodeOf(m.err) != m.code || !errors.Is(err, m.err) {
			t.Errorf("%v has code %s, want %s", m.err, code, m.code)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../journal/journal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			declared++
		}
		return true
	})
	if declared == 0 || listed != declared {
		t.Errorf("package journal declares %d errors, %d have a code", declared, listed)
	}
	if CodeOf(journal.ErrNotFound) != api.CodeNotFound || CodeOf(errors.New("?")) != api.CodeInternal || CodeOf(nil) != "" {
		t.Error("a wrong code")
	}
}
