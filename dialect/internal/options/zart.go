package options

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// ZartStep reads the attributes of a step. It retries every error of the step's own. A timeout is terminal in both scopes: the global one spans the attempts
// from the first scheduling, and of per_attempt ones only the countdown begins again.
func ZartStep(v any) (policy.Policy, error) {
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
	p.Set(kind, ZartTimeout(f))
	return p, f.Err()
}

// ZartTimeout reads the timeout of a wait or of a handler; nil: none.
func ZartTimeout(f *policy.Fields) *policy.Limit {
	if !f.Has("timeout") {
		return nil
	}
	return &policy.Limit{After: zartAmount(f, "timeout"), Origin: "timeout"}
}

var (
	zartDuration = regexp.MustCompile(`^\d+[smhd]$`)
	zartPreset   = regexp.MustCompile(`^(none|(fixed|exponential)\( *\d+ *, *\d+[smhd] *\))$`)
)

// zartAmount reads a timeout: one number and one unit.
func zartAmount(f *policy.Fields, key string) time.Duration {
	text := f.Text(key)
	d, err := policy.DecodeDuration(text)
	if err == nil && d == 0 {
		err = errors.New("zero leaves no time at all; leave the field out for no limit")
	}
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
