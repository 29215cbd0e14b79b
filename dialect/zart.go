package dialect

import (
	"github.com/pawl-dev/pawl/dialect/internal/options"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/policy"
)

// zartStep reads a step's attributes. Those of an event wait are its timeout alone.
func zartStep(fields any, kind string) (flow.Settings, []flow.Note, error) {
	if kind != "wait" {
		p, err := options.ZartStep(fields)
		return flow.Settings{Policy: p}, nil, err
	}
	f := policy.ReadFields(fields, "retry", "timeout", "timeout_scope")
	for _, key := range []string{"retry", "timeout_scope"} {
		if f.Has(key) {
			f.Fail(key, "an event wait has no attempts, only a timeout")
		}
	}
	var s flow.Settings
	s.Policy.Set(policy.LimitWait, options.ZartTimeout(f))
	return s, nil, f.Err()
}

// zartRun reads the attributes of a handler. Its timeout bounds the execution from its start.
func zartRun(fields any) (flow.RunSettings, []flow.Note, error) {
	f := policy.ReadFields(fields, "timeout", "on_failure")
	if f.Has("on_failure") {
		f.Fail("on_failure", "a flow says what it runs then: hooks: {onFailure: {exec: …}}")
	}
	var s flow.RunSettings
	s.Limits.Execution = options.ZartTimeout(f)
	return s, nil, f.Err()
}
