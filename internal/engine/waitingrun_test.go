package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestRunWaitedForByARefusedRun checks that a run is set aside if a run whose kind this process refuses waits for its
// end. Otherwise nobody could tell that run about the end, and it would wait for ever. A process that accepts both
// kinds carries both on.
func TestRunWaitedForByARefusedRun(t *testing.T) {
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
			named := func(s *StartRequest) { s.WorkflowID = "waiting" }
			notifies := func(s *StartRequest) { s.WorkflowID, s.Notify = "job", "waiting" }
			waiting := r.start(flow("waiting", event(core.SignalEnded("job"))), theirs, named)
			job := r.start(flow("job", nap(time.Hour)), notifies)
			own := r.start(flow("own", child(payload("inner"))))
			r.settle()
			if view {
				r.pass(10 * time.Minute) // everything is in the view by now and nothing in the tail
			}

			r.kinds = map[string]Kind{
				"plan":   all["plan"],
				"theirs": {Refuse: func(d journal.Definition) error { return fmt.Errorf("%s is a program's", d.Name) }},
			}
			r.restart()
			r.pass(2 * time.Hour)
			r.wantPhase(own, core.RunSucceeded)
			for _, id := range []core.RunID{outer, waiting, job} {
				if _, err := r.p.get(id); err == nil {
					t.Errorf("run %s is carried on", id)
				}
			}

			r.kinds = all
			r.restart()
			r.pass(time.Second)
			for _, id := range []core.RunID{outer, waiting, job} {
				r.wantPhase(id, core.RunSucceeded)
			}
		})
	}
}
