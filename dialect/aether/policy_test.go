package aether

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/dialect/internal/policytest"
	"github.com/pawl-dev/pawl/policy"
)

func TestPolicy(t *testing.T) { policytest.Run(t, "testdata/policy", Policy) }
func TestQuoteNames(t *testing.T) {
	for expression, want := range map[string]string{
		"":                                       "",
		"tasks.doomed.phase != 'Succeeded'":      "tasks.doomed.phase != 'Succeeded'",
		"tasks.wait-external.phase == 'Timeout'": `tasks["wait-external"].phase == 'Timeout'`,
		"tasks.a-b.code > 3 && tasks.c.msg == 'x'":       `tasks["a-b"].code > 3 && tasks.c.msg == 'x'`,
		"tasks.3d.code == 1":                             `tasks["3d"].code == 1`,
		"tasks.a.outputs.parameters.try-again":           `tasks.a.outputs.parameters["try-again"]`,
		"tasks.a-b.outputs.parameters.try-again == 'y'":  `tasks["a-b"].outputs.parameters["try-again"] == 'y'`,
		`tasks.a-b.outputs.parameters["try-again"] == 1`: `tasks["a-b"].outputs.parameters["try-again"] == 1`,
		"tasks.a.outputs.parameters.total-1 > 0":         "tasks.a.outputs.parameters.total-1 > 0",
		"tasks.a.msg == 'tasks.a-b.msg'":                 "tasks.a.msg == 'tasks.a-b.msg'",
		`tasks.a.msg == "it's \"tasks.a-b.msg\""`:        `tasks.a.msg == "it's \"tasks.a-b.msg\""`,
		"tasks.a.code - tasks.b.code":                    "tasks.a.code - tasks.b.code",
	} {
		if got := quoteNames(expression); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", expression, got, want)
		}
		if again := quoteNames(want); again != want {
			t.Errorf("%s is rewritten again, to %s", want, again)
		}
	}
}

func TestEnv(t *testing.T) {
	env := Env("doomed", &policy.Failure{Kind: policy.KindFailed, Code: 3, Message: "no"})
	want := "map[tasks:map[doomed:map[code:3 msg:no outputs:map[parameters:map[]] phase:Failed]]]"
	if got := fmt.Sprint(env); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	phases := map[policy.Kind]string{
		0: "Succeeded", policy.KindError: "Error", policy.KindFailed: "Failed", policy.KindTimeout: "Timeout",
		policy.KindCancelled: "Cancelled", policy.KindLost: "Error",
	}
	for _, kind := range slices.Sorted(maps.Keys(phases)) {
		if got := phaseOf(kind); got != phases[kind] {
			t.Errorf("%s is %s", kind, got)
		}
	}
}
