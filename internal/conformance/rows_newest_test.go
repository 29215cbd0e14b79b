package conformance

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

func init() { rows["R7"] = newestRunsCount }

// newestRunsCount checks that a run of a flow with concurrency: newest takes the place of the open run that has its
// workflow id: that is cancelled, with its hooks, and the new one begins when it has ended. Of several starts that wait
// for that the newest begins, and the others are refused.
func newestRunsCount(t *testing.T) {
	const text = `
pawl: 1
name: row
concurrency: newest
steps: [{name: work, exec: x}]
hooks: {onCancel: {exec: x}}
`
	doc, err := flow.Parse("row.yaml", []byte(text))
	must(t, err)
	written, err := flow.Encode(doc)
	must(t, err)
	doc, err = flow.Parse("row.yaml", written)
	must(t, err)
	script := map[string][]try{
		"work": {{hang: true, stops: 5 * time.Second}, ok, hangs}, "onCancel": {{run: 10 * time.Second}},
	}
	synctest.Test(t, func(t *testing.T) {
		n := newStage(t, &dialect.Conversion{Flow: doc})
		n.script, n.across = script, true
		n.open(nil)
		defer n.close()
		type answer struct {
			run core.RunID
			at  time.Duration
			err error
		}
		begin := time.Now()
		start := func() <-chan answer {
			got := make(chan answer, 1)
			go func() {
				s, err := n.engine.Start(n.t.Context(), engine.StartRequest{
					Definition: n.defs["row"],
					Start:      core.Start{WorkflowID: "deploy", Actor: "ann"},
				})
				got <- answer{s.Run, time.Since(begin), err}
			}()
			return got
		}
		first := <-start()
		n.pass(10 * time.Second)
		second := start()
		n.pass(2 * time.Second)
		third := start()
		n.pass(time.Minute)
		if a := <-second; !errors.Is(a.err, engine.ErrConflict) || !strings.Contains(a.err.Error(), "a newer start") ||
			a.at != 12*time.Second {
			n.t.Errorf("the start between is answered with %+v", a)
		}
		a := <-third
		if a.err != nil || a.at != 25*time.Second {
			n.t.Errorf("the newest start is answered with %+v", a)
		}
		before, err := n.engine.Inspect(n.t.Context(), first.run)
		must(n.t, err)
		last, err := n.engine.Inspect(n.t.Context(), a.run)
		must(n.t, err)
		wantPhase(n.t, before, core.RunCancelled)
		wantPhase(n.t, last, core.RunSucceeded)
		other := n.defs["row"]
		other.Name = "other"
		n.docs["other"] = n.docs["row"]
		mine := core.Start{WorkflowID: "mine"}
		s, err := n.engine.Start(n.t.Context(), engine.StartRequest{Definition: other, Start: mine})
		must(n.t, err)
		_, err = n.engine.Start(n.t.Context(), engine.StartRequest{Definition: n.defs["row"], Start: mine})
		r, look := n.engine.Inspect(n.t.Context(), s.Run)
		must(n.t, look)
		if !errors.Is(err, engine.ErrConflict) || r.Phase != core.RunRunning {
			n.t.Errorf("a start with the workflow id of another workflow's run: %v; that run is %s", err, r.Phase)
		}
	})
}
