package main

import (
	"slices"
	"testing"
)

// TestNarrowTable checks that a narrow terminal leaves out the least needed column.
func TestNarrowTable(t *testing.T) {
	t.Parallel()
	head := []string{"RUN", "WORKFLOW", "WORKFLOW ID", "PHASE", "CREATED", "TOOK", "ABOUT"}
	rows := [][]string{{"01a1fb50-f6b1-7624", "order", "order-42", "failed", "3m ago", "2m", "no paper"}}
	full := tableWidth(head, rows)
	head, rows = withoutColumn(head, rows, lessNeeded[0])
	if !slices.Equal(head, []string{"RUN", "WORKFLOW", "PHASE", "CREATED", "TOOK", "ABOUT"}) ||
		!slices.Equal(rows[0], []string{"01a1fb50-f6b1-7624", "order", "failed", "3m ago", "2m", "no paper"}) {
		t.Errorf("%q %q", head, rows)
	}
	if got, want := tableWidth(head, rows), full-len("WORKFLOW ID")-2; got != want {
		t.Errorf("the width is %d, want %d", got, want)
	}
}
