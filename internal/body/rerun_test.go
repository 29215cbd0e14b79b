package body

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestRerunKeepsWhatSucceeded checks that a step that an operator skipped has no result to keep, like one that failed.
func TestRerunKeepsWhatSucceeded(t *testing.T) {
	r := &core.Run{Phase: core.RunFailed}
	for _, s := range []struct {
		name  string
		phase core.StepPhase
	}{
		{"good", core.StepSucceeded},
		{"skipped", core.StepSkipped},
		{"failed", core.StepFailed},
		{"late", core.StepTimedOut},
		{"stopped", core.StepCancelled},
		{"again", core.StepSucceeded},
	} {
		r.Steps = append(r.Steps, core.Step{
			ID: core.StepID(len(r.Steps)), Spec: &core.StepSpec{Name: s.name}, Phase: s.phase, Group: core.NoStep,
		})
	}
	keep, err := Rerun(r, []string{"again"}, false)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range keep {
		names = append(names, k.Name)
	}
	if !slices.Equal(names, []string{"good"}) {
		t.Errorf("kept are %v", names)
	}
}
