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
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	rows["F1"] = nothingIsAnEmptyWord
	rows["F4"] = amountsHaveUnits
	rows["F5"] = eventsHaveSomebodyToWait
	rows["F6"] = lastWordsAreHeard
	rows["F7"] = combinationsHaveNames
	rows["D10"] = onlySomeDecide
}

// nothingIsAnEmptyWord checks that a name that does not exist is refused where it is written, and that a value that is
// not there fails its step, wherever a text is made of it.
func nothingIsAnEmptyWord(t *testing.T) {
	const head = "pawl: 1\nname: row\ninput: {type: object, properties: {dir: {type: string}}}\nsteps:\n"
	for _, argument := range []string{
		"q(drr)", "q([drr, 1])", "string(drr)", "toJSON(drr)", "join([drr], ' ')", "replace(drr, 'a', 'b')",
		"keys(drr)", "values(drr)", "toPairs(drr)", "q(upper(drr))", "input.drr", "q(steps.n.outptu)",
	} {
		text := head + "  - {name: n, noop: }\n" +
			"  - {name: a, needs: n, exec: \"rm -rf ${{ " + argument + " }}/cache\"}\n"
		if argument == "input.drr" {
			text = strings.Replace(text, "${{ "+argument+" }}", "${{ q("+argument+") }}", 1)
		}
		if _, err := flow.Parse("row.yaml", []byte(text)); err == nil {
			t.Errorf("%s is not refused", argument)
		}
	}
	for _, exec := range []string{
		`"rm -rf ${{ q(input.dir) }}/cache"`, `{command: [rm, "${{ input.dir }}/cache"]}`,
		`{command: [rm, "${{ input.dir }}"]}`, `{command: "${{ ['rm', input.dir] }}"}`,
		`{shell: x, env: {DIR: "${{ input.dir }}"}}`, `{shell: x, dir: "${{ input.dir }}/a"}`,
		`{shell: x, stdin: "to ${{ input.dir }}"}`, `{command: [rm, "${{ string(input.dir) }}/cache"]}`,
	} {
		playNative(t, head+"  - {name: a, exec: "+exec+"}\n", nil, func(n *native) {
			s := n.end().Steps[0]
			if s.Phase != api.StepFailed || !strings.Contains(s.Why, "null") ||
				!strings.Contains(s.Why, "row.yaml:5:") {
				t.Errorf("exec: %s: %s %q", exec, s.Phase, s.Why)
			}
		})
	}
}

// amountsHaveUnits checks that an amount of time without a unit is refused in each place of a flow file, and that the
// error says what to write.
func amountsHaveUnits(t *testing.T) {
	for _, place := range []string{
		"timeout: 10\nsteps: [{name: a, noop: }]",
		"startDelay: 10\nsteps: [{name: a, noop: }]",
		"steps: [{name: a, noop: , timeout: 10}]",
		"steps: [{name: a, exec: x, timeout: {startToClose: 10}}]",
		"steps: [{name: a, exec: x, timeout: {inactivity: {after: 10}}}]",
		"steps: [{name: a, exec: x, timeout: {deadline: \"10\"}}]",
		"steps: [{name: a, exec: x, retry: {maxAttempts: 3, initialInterval: 10}}]",
		"steps: [{name: a, exec: x, retry: \"fixed(3, 10)\"}]",
		"steps: [{name: a, exec: x, retry: \"exponential(3, 1s, max=10)\"}]",
		"steps: [{name: a, exec: {shell: x, grace: 10}}]",
		"steps: [{name: a, sleep: 10}]",
		"cron: {schedule: \"@daily\", catchUp: 10}\nsteps: [{name: a, noop: }]",
	} {
		_, err := flow.Parse("row.yaml", []byte("pawl: 1\nname: row\n"+place+"\n"))
		if err == nil || !strings.Contains(err.Error(), "10ms or 10s") {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// eventsHaveSomebodyToWait checks that an event that no step of a flow can wait for is refused with the name that was
// meant, unless it is to be kept.
func eventsHaveSomebodyToWait(t *testing.T) {
	const text = "pawl: 1\nname: row\ntimeout: 1m\nsteps:\n  - {name: a, wait: approved}\n"
	playNative(t, text, nil, func(n *native) {
		typo := core.SignalReceived{Name: "aproved", Payload: []byte("1")}
		err := n.engine.Signal(n.t.Context(), n.root, typo, true)
		if err == nil || !strings.Contains(err.Error(), `did you mean "approved"?`) {
			t.Errorf("a name that nothing waits for: %v", err)
		}
		if err := n.engine.Signal(n.t.Context(), n.root, typo, false); err != nil {
			t.Errorf("an event that is to be kept: %v", err)
		}
		n.send("approved", "2")
		if r := n.end(); r.Phase != api.RunSucceeded {
			t.Errorf("%s", r.Phase)
		}
	})
}

// onlySomeDecide checks that a wait takes the decision of those whom the flow names, and not of the starter where it
// says so: neither as an event, kept or not, nor as an operation on the step.
func onlySomeDecide(t *testing.T) {
	const text = "pawl: 1\nname: row\ntimeout: 1m\nsteps:\n  - {name: a, wait: {any: [yes, no], by: [ann, bob]}}\n" +
		"  - {name: b, needs: a, wait: {event: more, notBy: starter}}\n"
	playNative(t, text, nil, func(n *native) {
		send := func(name, actor string, expected bool) error {
			return n.engine.Signal(n.t.Context(), n.root, core.SignalReceived{
				Name: name, Payload: []byte("1"), Actor: actor,
			}, expected)
		}
		refused := func(err error, says string) {
			t.Helper()
			if api.CodeOf(err) != api.CodeForbidden || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %s", err, says)
			}
		}
		for _, expected := range []bool{true, false} {
			refused(send("yes", "carl (ann)", expected), "ann or bob decides this, not carl")
			refused(send("no", "", expected), "ann or bob decides this")
			refused(send("more", "", expected), "gives no name")
		}
		for _, op := range []core.Op{core.OpSkip, core.OpComplete, core.OpFail} {
			refused(n.engine.Operate(n.t.Context(), n.root, core.Operation{Op: op, Step: 0, Actor: "carl"}), "not carl")
		}
		for name, actor := range map[string]string{"yes": "bob (carl)", "more": "carl"} {
			if err := send(name, actor, true); err != nil {
				t.Errorf("%s of %s: %v", name, actor, err)
			}
		}
		if r := n.end(); r.Phase != api.RunSucceeded {
			t.Errorf("%s", r.Phase)
		}
	})
}

// lastWordsAreHeard checks that a heartbeat between the request to stop and the end of the work is what the next
// attempt begins with.
func lastWordsAreHeard(t *testing.T) {
	const text = "pawl: 1\nname: row\nsteps:\n" +
		"  - {name: work, exec: x, retry: \"fixed(2, 1s)\", timeout: {startToClose: 5s}}\n"
	script := map[string][]try{"work": {{hang: true, stops: 2 * time.Second, beats: []time.Duration{time.Second}}, ok}}
	playNative(t, text, script, func(n *native) {
		n.pass(6 * time.Second) // it was asked to stop at 5s, and stops at 7s
		n.engine.Report(n.root, core.Beat{Step: n.step("work").ID, Attempt: 1, Details: []byte(`"the last word"`)})
		n.pass(500 * time.Millisecond)
		if s := n.step("work"); string(s.Details) != `"the last word"` {
			t.Errorf("the next attempt would begin with %s", s.Details)
		}
		if r := n.end(); r.Phase != api.RunSucceeded {
			t.Errorf("%s", r.Phase)
		}
	})
}

// combinationsHaveNames checks which combinations a matrix has, what they are called, and that the failure of the run
// names the one that failed.
func combinationsHaveNames(t *testing.T) {
	const text = `
pawl: 1
name: row
failFast: true
steps:
  - name: test
    matrix:
      os: [linux, mac]
      go: [1, 2]
      exclude: [{os: mac, go: 1}]
      include: [{os: linux, race: true}, {os: plan9, go: 3}]
    exec: x
`
	bad := try{kind: policy.KindError, code: 1, msg: "exit code 1"}
	playNative(t, text, map[string][]try{"test[2]": {bad}}, func(n *native) {
		r := n.end()
		var got []string
		for _, s := range r.Steps[1:] {
			got = append(got, s.ItemName)
		}
		want := []string{"linux, 1, true", "linux, 2, true", "mac, 2", "plan9, 3"}
		if !slices.Equal(got, want) {
			t.Errorf("combinations %q, want %q", got, want)
		}
		if title := fmt.Sprintf("step %q (mac, 2) failed", "test[2]"); !strings.Contains(r.Why, title) {
			t.Errorf("the run ended because of %q", r.Why)
		}
	})
}
