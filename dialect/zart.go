package dialect

import (
	"fmt"
	"regexp"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/policy"
)

// zart retries every error of the step's own. A timeout is terminal in both scopes: the global one spans the attempts
// from the first scheduling, and of per_attempt ones only the countdown begins again.
func zart(v any) (policy.Policy, error) {
	f := policy.ReadFields(v, "retry", "timeout", "timeout_scope")
	p := policy.Policy{Retry: zartRetry(f, "retry")}

	kind := policy.LimitScheduleToClose
	switch scope := f.Text("timeout_scope"); scope {
	case "", "global":
	case "per_attempt":
		kind = policy.LimitStartToClose
	default:
		f.Fail("timeout_scope", "%q where global or per_attempt is expected", scope)
	}
	if f.Has("timeout") {
		p.Set(kind, &policy.Limit{After: zartAmount(f, "timeout"), Origin: "timeout"})
	}
	return p, f.Err()
}

// zartStep reads a step's attributes. Those of an event wait are its timeout alone.
func zartStep(fields any, kind string) (flow.Settings, []flow.Note, error) {
	if kind != "wait" {
		p, err := zart(fields)
		return flow.Settings{Policy: p}, nil, err
	}
	f := policy.ReadFields(fields, "retry", "timeout", "timeout_scope")
	for _, key := range []string{"retry", "timeout_scope"} {
		if f.Has(key) {
			f.Fail(key, "an event wait has no attempts, only a timeout")
		}
	}
	var s flow.Settings
	if f.Has("timeout") {
		s.Policy.Set(policy.LimitWait, &policy.Limit{After: zartAmount(f, "timeout"), Origin: "timeout"})
	}
	return s, nil, f.Err()
}

// zartRun reads the attributes of a handler. Its timeout bounds the execution from its start.
func zartRun(fields any) (flow.RunSettings, []flow.Note, error) {
	f := policy.ReadFields(fields, "timeout", "on_failure")
	if f.Has("on_failure") {
		f.Fail("on_failure", "a flow says what it runs then: hooks: {onFailure: {exec: …}}")
	}
	var s flow.RunSettings
	if f.Has("timeout") {
		s.Limits.Execution = &policy.Limit{After: zartAmount(f, "timeout"), Origin: "timeout"}
	}
	return s, nil, f.Err()
}

var (
	zartDuration = regexp.MustCompile(`^\d+[smhd]$`)
	zartPreset   = regexp.MustCompile(`^(none|(fixed|exponential)\( *\d+ *, *\d+[smhd] *\))$`)
)

// zartAmount reads a timeout: one number and one unit.
func zartAmount(f *policy.Fields, key string) time.Duration {
	text := f.Text(key)
	d, err := amount(text)
	if !zartDuration.MatchString(text) {
		err = fmt.Errorf("%q: write a number and s, m, h or d, as in 30s", text)
	}
	f.Keep(key, err)
	return d
}

func zartRetry(f *policy.Fields, key string) *policy.Retry {
	retry := policy.DefaultRetry()
	if text := f.Text(key); f.Has(key) {
		preset, err := policy.ParsePreset(text)
		switch {
		case err != nil:
		case !zartPreset.MatchString(text):
			err = fmt.Errorf("%q: write fixed(3, 1s) or exponential(3, 1s), the delay in s, m, h or d", text)
		case preset.MaxAttempts == 0:
			err = fmt.Errorf("%q: the first number is attempts in all, at least 1", text)
		}
		if err != nil {
			f.Keep(key, err)
			return nil
		}
		retry = preset
	}
	retry.On, retry.Origin = []policy.Kind{policy.KindError, policy.KindFailed}, "retry"
	return retry
}
