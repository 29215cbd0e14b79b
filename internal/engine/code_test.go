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

// TestEveryRefusalHasACode checks that each code of the machine has a code for callers, and the error keeps its cause
// and its text.
func TestEveryRefusalHasACode(t *testing.T) {
	for c := core.CodeInvalid; !strings.HasPrefix(c.String(), "unknown"); c++ {
		refusal := &core.Error{Code: c, Op: "pause", Msg: "the run is closing"}
		err := Refused("pause", core.RunID{1}, fmt.Errorf("machine: %w", refusal))
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
			t.Errorf("code %s: the refusal alone has another code", c)
		}
	}
}

// TestEveryJournalErrorHasACode checks that each error that package journal declares is in translations.
func TestEveryJournalErrorHasACode(t *testing.T) {
	listed := 0
	for _, tr := range translations {
		if strings.HasPrefix(tr.err.Error(), "journal:") {
			listed++
		}
		err := failure("start", "order-42", fmt.Errorf("append: %w", tr.err))
		if code := CodeOf(err); code != tr.code || CodeOf(tr.err) != tr.code || !errors.Is(err, tr.err) {
			t.Errorf("%v has code %s, want %s", tr.err, code, tr.code)
		}
	}
	if both := errors.Join(journal.ErrNoAnswer, journal.ErrCorrupt); CodeOf(both) != api.CodeStorage {
		t.Errorf("damage has code %s if the database did not answer either", CodeOf(both))
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
	if CodeOf(journal.ErrNotFound) != api.CodeNotFound || CodeOf(errors.New("?")) != api.CodeInternal ||
		CodeOf(nil) != "" {
		t.Error("CodeOf returns a wrong code")
	}
}
