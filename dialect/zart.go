package dialect

import "github.com/pawl-dev/pawl/policy"

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
		p.Set(kind, &policy.Limit{After: shortAmount(f, "timeout"), Origin: "timeout"})
	}
	return p, f.Err()
}

func zartRetry(f *policy.Fields, key string) *policy.Retry {
	retry := &policy.Retry{MaxAttempts: 1, BackoffCoefficient: 1}
	if text := f.Text(key); f.Has(key) {
		preset, err := policy.ParsePreset(text)
		if err != nil {
			f.Keep(key, err)
			return nil
		}
		retry = preset
	}
	retry.On = []policy.Kind{policy.KindError, policy.KindFailed}
	return retry
}
