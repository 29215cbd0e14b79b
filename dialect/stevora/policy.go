package stevora

import (
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// maxMilliseconds is the largest number of milliseconds that is a duration.
const maxMilliseconds = int(math.MaxInt64 / int64(time.Millisecond))

// Policy translates the policy of one step, as a YAML or JSON decoder yields it:
//
//	{retry: {maxAttempts, backoffMs, backoffMultiplier, maxBackoffMs}}
//
// Stevora retries every failure, by default up to three attempts, also where a step has no policy. It draws each
// delay from the upper quarter below the computed one. A nil value stands for the defaults. Errors are
// [*decode.Error] values.
func Policy(v any) (policy.Policy, error) {
	f := decode.Read(v, "retry")
	retry, err := readRetry(f.Value("retry"))
	f.Keep("retry", err)
	if err := f.Err(); err != nil {
		return policy.Policy{}, err
	}
	return policy.Policy{Retry: retry}, nil
}

func readRetry(v any) (*policy.Retry, error) {
	f := decode.Read(v, "maxAttempts", "backoffMs", "backoffMultiplier", "maxBackoffMs")
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
