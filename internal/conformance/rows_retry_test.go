package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

func init() {
	rows["R1"] = retriesDecideAnew
	rows["R2"] = earlyEndsAreRetried
	rows["R3"] = hooksAreMadeAgain
	rows["R4"] = runsGoOnWithAnotherText
}

// phases returns how the steps of a run that count stand, in the order of their names.
func phases(r *api.Run) string {
	var out []string
	for _, s := range r.Steps {
		if !s.Superseded {
			out = append(out, fmt.Sprintf("%s=%s", s.Name, s.Phase))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// again retries a run, or one of its steps.
func (n *native) again(step string) *api.Run {
	n.t.Helper()
	op := core.Operation{Op: core.OpRetryRun, Step: core.NoStep}
	if step != "" {
		op = core.Operation{Op: core.OpRetryStep, Step: n.step(step).ID}
	}
	n.operate(op)
	return n.end()
}

// step returns a step of the run by its key.
func (n *native) step(key string) *core.Step {
	n.t.Helper()
	s, ok := n.run().Lookup(key)
	if !ok {
		n.t.Fatalf("there is no step %q", key)
	}
	return s
}

// refused returns why an operation on the run is refused.
func (n *native) refused(op core.Operation) string {
	n.t.Helper()
	op.Actor = "test"
	err := n.engine.Operate(n.t.Context(), n.root, op)
	if err == nil {
		n.t.Fatalf("%s is not refused", op.Op)
	}
	return err.Error()
}

// retriesDecideAnew checks that a retry makes the failed steps again and decides anew whatever needs them, directly or
// not: what had begun because they failed, or was left out. What stands beside them keeps its result.
func retriesDecideAnew(t *testing.T) {
	const text = `
pawl: 1
name: row
steps:
  - {name: beside, exec: x}
  - {name: test, exec: x}
  - {name: report, needs: test, trigger: always, exec: x}
  - {name: publish, needs: report, exec: x}
  - {name: back, needs: test, trigger: anyFailed, exec: x}
  - {name: ship, needs: test, exec: x}
  - {name: all, needs: [beside, test], trigger: always, forEach: [p, q], exec: x}
  - {name: last, needs: all, exec: x}
output: "${{ steps.report.phase + ' ' + steps.test.phase }}"
`
	script := map[string][]try{"test": {failed, ok}, "back": {ok}}
	playNative(t, text, script, func(n *native) {
		const before = "all=succeeded all=succeeded all=succeeded back=succeeded beside=succeeded last=succeeded " +
			"publish=succeeded report=succeeded ship=skipped test=failed"
		if r := n.end(); r.Phase != api.RunFailed || phases(r) != before {
			t.Errorf("before the retry it %s with %s", r.Phase, phases(r))
		}
		const after = "all=succeeded all=succeeded all=succeeded back=skipped beside=succeeded last=succeeded " +
			"publish=succeeded report=succeeded ship=succeeded test=succeeded"
		if r := n.again(""); r.Phase != api.RunSucceeded || phases(r) != after ||
			string(r.Output) != `"succeeded succeeded"` {
			t.Errorf("after the retry it %s with %s and %s", r.Phase, phases(r), r.Output)
		}
		for step, want := range map[string]int{"beside": 1, "test": 2, "report": 2, "publish": 2, "last": 2} {
			if got := len(n.starts(step)); got != want {
				t.Errorf("step %s began %d times, and not %d", step, got, want)
			}
		}
	})
	retriesOfItems(t)
	retriesOfOpenRuns(t)
}

// retriesOfItems checks that of a loop only what needs the item that is made again is decided anew, and with it what
// needs the loop.
func retriesOfItems(t *testing.T) {
	const text = `
pawl: 1
name: row
steps:
  - {name: files, forEach: [p, q]}
  - {name: load, each: files, continueOn: [failed], exec: x}
  - {name: check, each: files, needs: load, exec: x}
  - {name: sum, needs: check, exec: x}
`
	script := map[string][]try{"load[0]": {ok}, "load[1]": {failed, ok}}
	playNative(t, text, script, func(n *native) {
		n.end()
		if r := n.again("load[1]"); r.Phase != api.RunSucceeded {
			t.Errorf("the run has %s", r.Phase)
		}
		for step, want := range map[string]int{"load[0]": 1, "check[0]": 1, "load[1]": 2, "check[1]": 2, "sum": 2} {
			if got := len(n.starts(step)); got != want {
				t.Errorf("step %s began %d times, and not %d", step, got, want)
			}
		}
	})
}

// retriesOfOpenRuns checks that in an open run a retry waits for what has begun because of the failure and runs, and
// ends what only waits.
func retriesOfOpenRuns(t *testing.T) {
	const text = `
pawl: 1
name: row
steps:
  - {name: test, exec: x}
  - {name: report, needs: test, trigger: always, exec: x}
  - {name: look, needs: report, trigger: always, wait: {event: seen}, timeout: 1d}
`
	script := map[string][]try{"test": {failed, ok}, "report": {{run: time.Hour}, ok}}
	playNative(t, text, script, func(n *native) {
		n.pass(time.Minute)
		retry := core.Operation{Op: core.OpRetryStep, Step: n.step("test").ID}
		if why := n.refused(retry); !strings.Contains(why, `step "report", which needs what failed`) ||
			!strings.Contains(why, "still runs") {
			t.Error(why)
		}
		n.pass(2 * time.Hour)
		n.operate(retry)
		n.pass(time.Minute)
		if got := phases(n.now()); got != "look=suspended report=succeeded test=succeeded" {
			t.Error(got)
		}
		n.send("seen", "{}")
		if r := n.end(); r.Phase != api.RunSucceeded || len(n.starts("report")) != 2 {
			t.Errorf("the run has %s", r.Phase)
		}
	})
}

// earlyEndsAreRetried checks that a run can be retried that ended though none of its steps failed: it goes on with
// fresh limits where it had stopped.
func earlyEndsAreRetried(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		script []try
		phase  api.RunPhase
		cancel bool
		starts int
	}{
		"the limit expired in a wait": {
			"timeout: {run: 1m}\nsteps:\n  - {name: work, exec: x}\n" +
				"  - {name: pause, needs: work, sleep: 50s}\n  - {name: pause2, needs: pause, sleep: 30s}\n",
			[]try{ok},
			api.RunSucceeded, false, 1,
		},
		"it was cancelled before it began": {
			"startDelay: 1h\nsteps: [{name: work, exec: x}]\n",
			[]try{ok},
			api.RunSucceeded, true, 1,
		},
		"the output cannot be computed": {
			"steps: [{name: work, exec: x}]\noutput: \"${{ steps.work.output.missing }}\"\n",
			[]try{{output: "{}"}},
			api.RunFailed, false, 1,
		},
	} {
		playNative(t, "pawl: 1\nname: row\n"+c.text, map[string][]try{"work": c.script}, func(n *native) {
			if c.cancel {
				n.operate(core.Operation{Op: core.OpCancel, Step: core.NoStep})
			}
			if r := n.end(); !r.Phase.Closed() || r.Phase == api.RunSucceeded {
				t.Errorf("%s: before the retry the run is %s", name, r.Phase)
			}
			r := n.again("")
			if r.Phase != c.phase || len(n.starts("work")) != c.starts || len(r.Operations) == 0 {
				t.Errorf("%s: after the retry the run is %s, and work began %d times", name, r.Phase,
					len(n.starts("work")))
			}
		})
	}
	const well = "pawl: 1\nname: row\nsteps: [{name: work, exec: x}]\n"
	playNative(t, well, map[string][]try{"work": {ok}}, func(n *native) {
		n.end()
		why := n.refused(core.Operation{Op: core.OpRetryRun, Step: core.NoStep})
		if !strings.Contains(why, "restart it") {
			t.Error(why)
		}
	})
}

// hooksAreMadeAgain checks that a hook that failed can be made again when the run has ended. The run keeps its outcome,
// and nothing else of it is made again.
func hooksAreMadeAgain(t *testing.T) {
	const text = "pawl: 1\nname: row\nsteps: [{name: work, exec: x}]\n" +
		"hooks: {onFailure: {exec: x}, onExit: {exec: x}}\n"
	script := map[string][]try{"work": {failed}, "onFailure": {ok}, "onExit": {failed, ok}}
	playNative(t, text, script, func(n *native) {
		if r := n.end(); phases(r) != "onExit=failed onFailure=succeeded work=failed" {
			t.Error(phases(r))
		}
		failure := n.now().Failure
		r := n.again("onExit")
		if r.Phase != api.RunFailed || r.Failure == nil || r.Failure.Message != failure.Message ||
			phases(r) != "onExit=succeeded onFailure=succeeded work=failed" {
			t.Errorf("the run has %s: %+v, %s", r.Phase, r.Failure, phases(r))
		}
		if len(n.starts("onExit")) != 2 || len(n.starts("onFailure")) != 1 || len(n.starts("work")) != 1 {
			t.Error(n.attempts())
		}
		why := n.refused(core.Operation{Op: core.OpRetryStep, Step: n.step("onFailure").ID})
		if !strings.Contains(why, "only a failed") {
			t.Error(why)
		}
	})
}

// runsGoOnWithAnotherText checks that a run that failed goes on with a mended text of its flow, or with another input:
// as a run that takes over what a retry would leave alone. Where that was done otherwise than the text says, or with a
// value that differs, the differences are told and nothing begins.
func runsGoOnWithAnotherText(t *testing.T) {
	const text = `
pawl: 1
name: row
input: {type: object, properties: {n: {type: integer, default: 1}, m: {type: integer, default: 1}}}
steps:
  - {name: get, exec: x}
  - {name: use, needs: get, exec: {command: [x, "${{ string(input.n) }}"]}}
  - {name: each, needs: get, forEach: [p, q], exec: {command: [x, "${{ item }}"]}}
  - {name: charge, needs: use, exec: x, timeout: 1m}
  - {name: told, needs: charge, trigger: always, exec: {command: [x, "${{ string(input.m) }}"]}}
`
	script := map[string][]try{"charge": {failed}, "each[0]": {ok}, "each[1]": {failed}}
	playNative(t, text, script, func(n *native) {
		n.end()
		was := n.docs["row"]
		for _, c := range []struct {
			from, to, input string
			kept            string
			refused         string
			names           []string // nil: the failed steps
		}{
			{"exec: x, timeout: 1m", "exec: z, timeout: 1h", `{"n":1,"m":2}`, "each[0] get use", "", nil},
			{"", "", `{"n":2,"m":1}`, "each[0] get", "", []string{"use"}},
			{"", "", `{"n":2,"m":1}`, "", `step "use" has used input.n`, []string{"each"}},
			{"name: use, needs: get", "name: use", `{"n":1,"m":1}`, "", "", []string{"get"}},
			{"[x, \"${{ item }}\"]", "[z, \"${{ item }}\"]", `{"n":1,"m":1}`, "get use", "", nil},
			{
				"name: get, exec: x", "name: get, exec: x, timeout: 5m, retry: \"fixed(2, 1s)\"", `{"n":1,"m":1}`,
				"each[0] get use", "", nil,
			},
			{"", "", `{"n":2,"m":1}`, "", `step "use" has used input.n`, nil},
			{
				"name: get, exec: x", "name: get, exec: z", `{"n":1,"m":1}`, "",
				`step "get": exec was {shell: x}, and is {shell: z}`, nil,
			},
			{"name: use, needs: get", "name: use", `{"n":1,"m":1}`, "", `step "use": needs was`, nil},
			{"name: get", "name: got", `{"n":1,"m":1}`, "", `step "get" is gone`, nil},
		} {
			src := strings.Replace(text, c.from, c.to, 1)
			if c.to == "name: got" {
				src = strings.ReplaceAll(src, "needs: get", "needs: got")
			}
			doc, err := flow.Parse("row.yaml", []byte(src))
			if err != nil {
				t.Fatal(err)
			}
			kept, err := flow.Continue(doc, was, n.run(), []byte(c.input), c.names, c.names != nil)
			if err != nil || c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || c.refused == "" {
					t.Errorf("%s: %v, want %q", c.to, err, c.refused)
				}
				continue
			}
			var names []string
			for _, k := range kept {
				name := k.Name
				if k.Item >= 0 {
					name = fmt.Sprintf("%s[%d]", name, k.Item)
				}
				names = append(names, name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != c.kept {
				t.Errorf("%s keeps %s, and should keep %s", c.to, got, c.kept)
			}
		}
	})
}
