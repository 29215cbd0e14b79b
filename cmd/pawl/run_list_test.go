package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
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

// TestStateOf checks how a run is described to which an event was delivered.
func TestStateOf(t *testing.T) {
	for want, r := range map[string]api.RunSummary{
		"has ended: timed out": {Phase: api.RunTimedOut, Resting: true},
		"nothing carries":      {Phase: api.RunRunning, Resting: true},
		"is waiting":           {Phase: api.RunWaiting},
	} {
		if have := stateOf(&api.Run{RunSummary: r}, true); have != want {
			t.Errorf("%q in place of %q", have, want)
		}
	}
}

// TestOutputGone checks that a reader of the output which has gone is distinguished from a connection that broke.
func TestOutputGone(t *testing.T) {
	gone := &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}
	broken := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	if !outputGone(errors.Join(nil, gone)) || outputGone(broken) || outputGone(nil) {
		t.Error("an output and a connection are mistaken")
	}
}
