package dialect

import (
	"math"
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// maxMilliseconds is the largest number of milliseconds that is a duration.
const maxMilliseconds = int(math.MaxInt64 / int64(time.Millisecond))

// stevora retries every failure, three attempts by default also where a step has no policy, and draws each delay from
// the upper quarter below the computed one.
func stevora(v any) (policy.Policy, error) {
	f := policy.ReadFields(v, "retry")
	retry, err := stevoraRetry(f.Value("retry"))
	f.Keep("retry", err)
	return policy.Policy{Retry: retry}, f.Err()
}

func stevoraRetry(v any) (*policy.Retry, error) {
	f := policy.ReadFields(v, "maxAttempts", "backoffMs", "backoffMultiplier", "maxBackoffMs")
	r := &policy.Retry{
		MaxAttempts:        f.Int("maxAttempts", 3, 1, 20),
		InitialInterval:    time.Duration(f.Int("backoffMs", 1000, 100, maxMilliseconds)) * time.Millisecond,
		BackoffCoefficient: f.Number("backoffMultiplier", 2, 1, 10),
		MaxInterval:        time.Duration(f.Int("maxBackoffMs", 300_000, 1, maxMilliseconds)) * time.Millisecond,
		Jitter:             0.25,
		On:                 []policy.Kind{policy.KindError, policy.KindFailed, policy.KindTimeout},
	}
	return r, f.Err()
}
