package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestNobodyEndsUnheard: where runs of a kind are refused, a run whose end one of them waits for stands still, too, and goes
// on where both are carried on. Without that the end would be lost, and the run that waits for it would hang.
func TestNobodyEndsUnheard(t *testing.T) {
	for _, view := range []bool{false, true} {
		t.Run(fmt.Sprintf("in the view: %t", view), func(t *testing.T) {
			r := newRig(t, -1)
			all := map[string]Kind{"plan": r.kinds["plan"], "theirs": r.kinds["plan"]}
			r.kinds = all
			r.restart()
			theirs := func(s *StartRequest) { s.Definition.Kind = "theirs" }
			r.plans["middle"] = flow("middle", child(payload("inner"))).definition()
			r.plans["inner"] = flow("inner", nap(time.Hour)).definition()

			outer := r.start(flow("outer", child(payload("middle"))), theirs)
			boss := r.start(flow("boss", event(core.SignalEnded("job"))), theirs, func(s *StartRequest) { s.WorkflowID = "boss" })
			job := r.start(flow("job", nap(time.Hour)), func(s *StartRequest) { s.WorkflowID, s.Notify = "job", "boss" })
			own := r.start(flow("own", child(payload("inner"))))
			r.settle()
			if view {
				r.pass(10 * time.Minute) // the view has everything by now, and the tail nothing
			}

			r.kinds = map[string]Kind{
				"plan":   all["plan"],
				"theirs": {Refuse: func(d journal.Definition) error { return fmt.Errorf("%s is a program's", d.Name) }},
			}
			r.restart()
			r.pass(2 * time.Hour)
			r.wantPhase(own, core.RunSucceeded)
			for _, id := range []core.RunID{outer, boss, job} {
				if _, err := r.p.get(id); err == nil {
					t.Errorf("run %s is carried on", id)
				}
			}

			r.kinds = all
			r.restart()
			r.pass(time.Second)
			for _, id := range []core.RunID{outer, boss, job} {
				r.wantPhase(id, core.RunSucceeded)
			}
		})
	}
}
