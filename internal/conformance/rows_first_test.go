package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
)

func init() { rows["R6"] = firstOfSeveral }

// firstOfSeveral checks that a wait ends with the first of several events and steps, and says which it was. Those that
// come later change nothing. A retry of the step that has ended it decides the wait anew.
func firstOfSeveral(t *testing.T) {
	firstEventCounts(t)
	stepsEndWaits(t)
}

// firstEventCounts checks a wait for one of two events, also where the engine was opened again, and where one came
// before the wait began.
func firstEventCounts(t *testing.T) {
	const text = `
pawl: 1
name: row
steps:
  - {name: decision, wait: {any: [approved, rejected]}, timeout: 1d}
  - {name: ship, needs: decision, when: "${{ steps.decision.output.which == 'approved' }}", exec: x}
  - {name: again, needs: decision, wait: {any: [approved, late]}, timeout: 1h, continueOn: [timeout]}
output: "${{ [steps.decision.output, steps.again.output ?? steps.again.phase] }}"
`
	doc, err := flow.Parse("row.yaml", []byte(text))
	must(t, err)
	written, err := flow.Encode(doc)
	must(t, err)
	for _, text := range []string{text, string(written)} {
		playNative(t, text, nil, func(n *native) {
			n.pass(time.Minute)
			n.close()
			n.open(nil)
			n = newNative(n.stage)
			err := n.svc.Send(n.t.Context(), n.root.String(), api.SendRequest{Name: "aproved"})
			if err == nil || !strings.Contains(err.Error(), `did you mean "approved"`) {
				n.t.Errorf("an event that nothing waits for: %v", err)
			}
			n.send("rejected", `{"why":"too dear"}`)
			n.send("approved", `1`) // the other wait takes it
			if r := n.end(); string(r.Output) !=
				`[{"value":{"why":"too dear"},"which":"rejected"},{"value":1,"which":"approved"}]` {
				n.t.Errorf("the output is %s", r.Output)
			}
			if len(n.starts("ship")) != 0 {
				n.t.Error("the step of the other event began")
			}
		})
	}
	playNative(t, text, nil, func(n *native) {
		n.send("approved", `1`)
		r := n.end()
		if string(r.Output) != `[{"value":1,"which":"approved"},"timed_out"]` || n.since(r.EndedAt) != time.Hour {
			n.t.Errorf("the output is %s", r.Output)
		}
	})
}

// stepsEndWaits checks that the end of a step ends a wait, and an event before it does, while the step goes on.
func stepsEndWaits(t *testing.T) {
	const text = `
pawl: 1
name: row
steps:
  - {name: build, exec: x}
  - {name: first, wait: {any: [stop, {step: build}]}, timeout: 1d}
  - {name: told, needs: first, exec: x}
output: "${{ steps.first.output }}"
`
	build := []try{{run: time.Minute, kind: failed.kind, msg: "boom"}, {run: time.Minute, output: `{"n":1}`}}
	playNative(t, text, map[string][]try{"build": build}, func(n *native) {
		if r := n.end(); r.Phase != api.RunFailed || phases(r) != "build=failed first=succeeded told=succeeded" {
			n.t.Errorf("the run has %s: %s", r.Phase, phases(r))
		}
		r := n.again("")
		if r.Phase != api.RunSucceeded || string(r.Output) != `{"value":{"n":1},"which":"build"}` ||
			len(n.starts("told")) != 2 {
			n.t.Errorf("after the retry the run %s with %s, %s", r.Phase, r.Output, phases(r))
		}
	})
	playNative(t, text, map[string][]try{"build": build}, func(n *native) {
		n.pass(time.Second)
		n.send("stop", `"enough"`)
		r := n.end()
		if phases(r) != "build=failed first=succeeded told=succeeded" || n.since(r.EndedAt) != time.Minute {
			n.t.Errorf("the run has %s", phases(r))
		}
		r = n.again("")
		if string(r.Output) != `{"value":"enough","which":"stop"}` || len(n.starts("told")) != 1 {
			n.t.Errorf("after the retry: %s, %s", r.Output, phases(r))
		}
	})
}
