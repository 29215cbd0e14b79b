package history_test

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/history"
)

// TestForms checks that the file of a history is as version 0.1.0 wrote it.
func TestForms(t *testing.T) {
	run := core.RunID{1, 2, 3}
	entries := []core.Entry{
		{Run: run, At: 1782867311950417, Records: []core.Record{core.RunCreated{Workflow: "w", Input: []byte("7")}}},
		{Run: run, At: 1782867311950418, Records: []core.Record{core.RunStarted{}}},
	}
	golden.Form(t, "history.json", entries,
		func(all []core.Entry) ([]byte, error) { return history.Write(nil, all) }, history.Read)
}
