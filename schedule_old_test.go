package pawl_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/core"
)

// TestOldSchedules: schedules of the time before they could be changed go on. The histories have firings, an outage,
// and a sleep or a turn that is being waited for.
func TestOldSchedules(t *testing.T) {
	files, err := filepath.Glob("testdata/schedule/*.history")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d histories, want 4: %v", len(files), err)
	}
	for _, file := range files {
		history, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := pawl.Replay(t.Context(), pawl.Config{}, pawl.ScheduleWorkflow(), history); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		entries, err := core.ReadEntries(history)
		if err != nil {
			t.Fatal(err)
		}
		changed := false
		for i := range entries {
			for j, rec := range entries[i].Records {
				if began, ok := rec.(core.StepBegan); ok && began.Spec.Name == "start#2" {
					spec := *began.Spec
					spec.Name, changed = "begin#2", true
					began.Spec = &spec
					entries[i].Records[j] = began
				}
			}
		}
		var other []byte
		for i := range entries {
			other = core.AppendEntry(other, &entries[i])
		}
		err = pawl.Replay(context.Background(), pawl.Config{}, pawl.ScheduleWorkflow(), other)
		if err == nil || !changed {
			t.Errorf("%s: a history that other code made is taken", file)
		}
	}
}
