package facetest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
)

// TestEveryErrorHasACode checks that each error of package pawl to compare with has a code of its own, and with it its
// statuses.
func TestEveryErrorHasACode(t *testing.T) {
	all := map[string]error{
		"ErrTimedOut": pawl.ErrTimedOut, "ErrRetriesExhausted": pawl.ErrRetriesExhausted,
		"ErrDeadlineExceeded": pawl.ErrDeadlineExceeded, "ErrCancelled": pawl.ErrCancelled,
		"ErrTerminated": pawl.ErrTerminated,
		"ErrWorkerLost": pawl.ErrWorkerLost, "ErrInvalid": pawl.ErrInvalid, "ErrNotFound": pawl.ErrNotFound,
		"ErrConflict": pawl.ErrConflict,
		"ErrClosed":   pawl.ErrClosed, "ErrHeld": pawl.ErrHeld,
		"ErrTooLarge": pawl.ErrTooLarge, "ErrRunClosed": pawl.ErrRunClosed, "ErrFull": pawl.ErrFull,
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			declared++
			if all[spec.Names[0].Name] == nil {
				t.Errorf("%s is not tried here", spec.Names[0].Name)
			}
		}
		return true
	})
	if declared != len(all) {
		t.Errorf("%d errors are declared, %d tried", declared, len(all))
	}
	for name, err := range all {
		if code := api.CodeOf(fmt.Errorf("wrapped: %w", err)); code == api.CodeInternal || code == "" {
			t.Errorf("%s has code %q", name, code)
		}
		for other, target := range all {
			if errors.Is(err, target) != (name == other) {
				t.Errorf("errors.Is(%s, %s) is %t", name, other, errors.Is(err, target))
			}
		}
	}
	if code := api.CodeOf(&pawl.RunError{Run: "r", Phase: "timed_out"}); code != api.CodeTimedOut {
		t.Errorf("a run that timed out has code %s", code)
	}
}
