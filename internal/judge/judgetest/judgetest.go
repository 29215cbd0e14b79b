// Package judgetest draws policies for property tests.
package judgetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/policy"
)

// Epoch is the instant from which absolute limits are drawn.
const Epoch policy.Time = 1_700_000_000_000_000

// Policy draws a policy.
func Policy(t *rapid.T) policy.Policy {
	var p policy.Policy
	if rapid.Bool().Draw(t, "has retry") {
		p.Retry = Retry(t)
	}
	for _, kind := range policy.StepLimits {
		if rapid.Bool().Draw(t, "has "+kind.String()) {
			p.Set(kind, Limit(t, kind))
		}
	}
	return p
}

// Retry draws a retry policy.
func Retry(t *rapid.T) *policy.Retry {
	kinds := []policy.JitterKind{0, policy.JitterDecorrelated}
	return &policy.Retry{
		MaxAttempts:        rapid.IntRange(-1, 6).Draw(t, "maxAttempts"),
		InitialInterval:    Amount(t, "initialInterval"),
		BackoffCoefficient: rapid.Float64Range(1, 10).Draw(t, "backoffCoefficient"),
		MaxInterval:        Amount(t, "maxInterval"),
		Jitter:             rapid.Float64Range(0, 1).Draw(t, "jitter"),
		JitterKind:         rapid.SampledFrom(kinds).Draw(t, "kind"),
		On:                 rapid.SliceOfDistinct(Kind(), rapid.ID).Draw(t, "on"),
		When:               rapid.SampledFrom([]string{"", "code != 2"}).Draw(t, "when"),
		NonRetryable:       rapid.SampledFrom([][]string{nil, {"Worse", "Bad"}}).Draw(t, "nonRetryable"),
		Origin:             rapid.SampledFrom([]string{"", "defaults"}).Draw(t, "origin"),
		MaxLost:            rapid.SampledFrom([]int{0, 0, -1, 1, 3}).Draw(t, "maxLost"),
	}
}

// Limit draws a limit of a kind.
func Limit(t *rapid.T, kind policy.LimitKind) *policy.Limit {
	if rapid.IntRange(0, 5).Draw(t, "removed") == 0 {
		return &policy.Limit{Removed: true}
	}
	limit := &policy.Limit{
		OnExpire: rapid.SampledFrom([]policy.Expire{0, policy.ExpireCancel}).Draw(t, "onExpire"),
		Origin:   rapid.SampledFrom([]string{"", "order.yaml:12:5"}).Draw(t, "origin"),
	}
	if kind.PerAttempt() {
		limit.Retry = rapid.Bool().Draw(t, "retry")
	}
	if kind == policy.LimitDeadline && rapid.Bool().Draw(t, "instant") {
		limit.At = Epoch + policy.Time(rapid.Int64Range(1, 1e15).Draw(t, "at"))
		return limit
	}
	limit.After = Amount(t, "after") + time.Millisecond
	limit.Warn = rapid.IntRange(0, 99).Draw(t, "warn")
	return limit
}

// Amount draws a length of time.
func Amount(t *rapid.T, label string) time.Duration {
	return time.Duration(rapid.OneOf(
		rapid.Just(int64(0)), rapid.Int64Range(1, 100_000), rapid.Int64Range(1, 1e12),
	).Draw(t, label)) * time.Millisecond
}

// Kind draws a kind of failure.
func Kind() *rapid.Generator[policy.Kind] {
	return rapid.SampledFrom([]policy.Kind{
		policy.KindError, policy.KindFailed, policy.KindTimeout, policy.KindCancelled, policy.KindLost,
	})
}
