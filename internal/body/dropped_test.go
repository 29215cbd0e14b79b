package body

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// TestNewsOfDroppedSteps checks that whole news that come twice do not contradict what the body has seen, after a retry
// has dropped a step and the body has decided one of the same key since.
func TestNewsOfDroppedSteps(t *testing.T) {
	spec := &core.StepSpec{Name: "a", Def: -1, Type: TypeLocal}
	news := engine.News{Whole: true, Head: &engine.Head{}, Steps: []engine.Step{
		{ID: 0, Spec: spec, Phase: core.StepFailed, EndedAt: 1, Dropped: true},
		{ID: 1, Spec: spec, Phase: core.StepSucceeded, EndedAt: 2},
	}}
	s := NewSession(core.RunID{1}, 0)
	s.News(news)
	s.Start(time.Second)
	s.News(news)
	if s.over() {
		t.Error("the body is called again")
	}

	news.Steps[1].Dropped = true
	if s.News(news); !s.over() {
		t.Error("a step that the body has seen was dropped, and the body is not called again")
	}
}
