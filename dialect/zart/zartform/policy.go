package zartform

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// Policy translates the attributes of one step, as a YAML or JSON decoder yields them:
//
//	{retry: "fixed(3, 1s)", timeout: 5m, timeout_scope: global | per_attempt}
//
// Zart retries every error of the step's own. A timeout ends the step in both scopes: the global one spans the
// attempts from the first scheduling on, the other begins again with each attempt. A nil value stands for the
// defaults. Errors are [*decode.Error] values.
func Policy(v any) (policy.Policy, error) {
	f := decode.Read(v, "retry", "timeout", "timeout_scope")
	p := policy.Policy{Retry: readRetry(f, "retry")}

	kind := policy.LimitScheduleToClose
	switch scope := f.Text("timeout_scope"); scope {
	case "", "global":
	case "per_attempt":
		kind = policy.LimitStartToClose
	default:
		f.Fail("timeout_scope", "%q where global or per_attempt is expected", scope)
	}
	p.Set(kind, Timeout(f))
	if err := f.Err(); err != nil {
		return policy.Policy{}, err
	}
	return p, nil
}

// Timeout reads the timeout of a wait or of a handler, nil if there is none.
func Timeout(f *decode.Fields) *policy.Limit {
	if !f.Has("timeout") {
		return nil
	}
	return &policy.Limit{After: readAmount(f, "timeout"), Origin: "timeout"}
}

var (
	shortDuration = regexp.MustCompile(`^\d+[smhd]$`)
	presetText    = regexp.MustCompile(`^(none|(fixed|exponential)\( *\d+ *, *\d+[smhd] *\))$`)
)

// readAmount reads a timeout: one number and one unit.
func readAmount(f *decode.Fields, key string) time.Duration {
	text := f.Text(key)
	d, err := decode.Duration(text)
	if err == nil && d == 0 {
		err = errors.New("zero leaves no time at all; leave the field out for no limit")
	}
	if !shortDuration.MatchString(text) {
		err = fmt.Errorf("%q: write a number and s, m, h or d, as in 30s", text)
	}
	f.Keep(key, err)
	return d
}

func readRetry(f *decode.Fields, key string) *policy.Retry {
	retry := policy.DefaultRetry()
	if text := f.Text(key); f.Has(key) {
		preset, err := policy.DecodeRetry(text)
		switch {
		case err != nil:
		case !presetText.MatchString(text):
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
