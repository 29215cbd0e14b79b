package worker

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

type listed []core.Input

func (l *listed) Report(_ core.RunID, in core.Input) { *l = append(*l, in) }

// What was reported before there was somebody to tell is told first, in order.
func TestReportsBeforeTheReporter(t *testing.T) {
	p := NewPool(PoolConfig{})
	p.Revoke(core.Token{Step: 1}, 0)
	p.Revoke(core.Token{Step: 2}, 0)
	var got listed
	p.ReportTo(&got)
	p.Revoke(core.Token{Step: 3}, 0)
	if len(got) != 3 {
		t.Fatalf("%d reports came, want 3", len(got))
	}
	for i, in := range got {
		if stopped, ok := in.(core.TaskStopped); !ok || stopped.Step != core.StepID(i+1) {
			t.Errorf("report %d is %+v", i, in)
		}
	}
}
