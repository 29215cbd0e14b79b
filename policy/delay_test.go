package policy_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/judge/judgetest"
	"github.com/pawl-dev/pawl/policy"
)

func TestDelay(t *testing.T) {
	second, ms := time.Second, time.Millisecond
	forever := time.Duration(math.MaxInt64).Truncate(ms)
	for _, test := range []struct {
		name  string
		retry policy.Retry
		u     float64
		want  []time.Duration // the delays after attempts 1, 2, …
	}{
		{"no delay", policy.Retry{BackoffCoefficient: 2}, 0, []time.Duration{0, 0, 0}},
		{"constant", policy.Retry{InitialInterval: second, BackoffCoefficient: 1}, 0, []time.Duration{second, second}},
		{"no coefficient is constant", policy.Retry{InitialInterval: second}, 0, []time.Duration{second, second}},
		{
			"doubled and capped",
			policy.Retry{InitialInterval: second, BackoffCoefficient: 2, MaxInterval: 10 * second},
			0,
			[]time.Duration{second, 2 * second, 4 * second, 8 * second, 10 * second, 10 * second},
		},
		{
			"real coefficient",
			policy.Retry{InitialInterval: 10 * ms, BackoffCoefficient: 1.5},
			0,
			[]time.Duration{10 * ms, 15 * ms, 22 * ms, 33 * ms, 50 * ms},
		},
		{
			"cap below the initial interval",
			policy.Retry{InitialInterval: second, BackoffCoefficient: 2, MaxInterval: ms},
			0,
			[]time.Duration{ms, ms},
		},
		{
			"shortest jitter",
			policy.Retry{InitialInterval: second, BackoffCoefficient: 2, Jitter: 0.25},
			0,
			[]time.Duration{750 * ms, 1500 * ms},
		},
		{
			"jitter after the cap",
			policy.Retry{InitialInterval: second, BackoffCoefficient: 2, MaxInterval: 2 * second, Jitter: 0.5},
			0.5,
			[]time.Duration{750 * ms, 1500 * ms, 1500 * ms},
		},
		{"full jitter", policy.Retry{InitialInterval: second, Jitter: 1}, 0, []time.Duration{0}},
		{"longest jitter", policy.Retry{InitialInterval: second, Jitter: 1}, 0.9999, []time.Duration{999 * ms}},
		{"a u that cannot be", policy.Retry{InitialInterval: second, Jitter: 1}, 7, []time.Duration{second}},
		{"floored", policy.Retry{InitialInterval: 1999 * time.Microsecond}, 0, []time.Duration{ms}},
		{
			"saturated",
			policy.Retry{InitialInterval: math.MaxInt64, BackoffCoefficient: math.MaxFloat64},
			0,
			[]time.Duration{forever, forever, forever},
		},
	} {
		for i, want := range test.want {
			if got := test.retry.Delay(i+1, 0, test.u); got != want {
				t.Errorf("%s: after attempt %d %v, want %v", test.name, i+1, got, want)
			}
		}
	}
}

func TestDelayDecorrelated(t *testing.T) {
	r := policy.Retry{
		InitialInterval: time.Second, MaxInterval: 10 * time.Second,
		JitterKind: policy.JitterDecorrelated,
	}
	for _, test := range []struct {
		previous time.Duration
		u        float64
		want     time.Duration
	}{
		{0, 0, time.Second},
		{0, 0.9, time.Second},
		{time.Second, 0, time.Second},
		{time.Second, 0.5, 2 * time.Second},
		{2 * time.Second, 0.5, 3500 * time.Millisecond},
		{8 * time.Second, 0.9, 10 * time.Second},
		{time.Millisecond, 0.9, time.Second}, // the worker asked for a short delay before
		{math.MaxInt64, 0.9, 10 * time.Second},
	} {
		if got := r.Delay(5, test.previous, test.u); got != test.want {
			t.Errorf("previous %v, u %v: %v, want %v", test.previous, test.u, got, test.want)
		}
	}
}

func TestDelayProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := judgetest.Retry(t)
		r.InitialInterval = max(r.InitialInterval, 0)
		n := rapid.IntRange(1, math.MaxInt).Draw(t, "n")
		previous := time.Duration(rapid.Int64Min(0).Draw(t, "previous"))
		u := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "u")
		d := r.Delay(n, previous, u)
		switch {
		case d < 0:
			t.Fatalf("negative: %v", d)
		case r.MaxInterval > 0 && d > r.MaxInterval:
			t.Fatalf("%v is above the cap of %v", d, r.MaxInterval)
		case d%time.Millisecond != 0:
			t.Fatalf("not whole milliseconds: %v", d)
		case d != r.Delay(n, previous, u):
			t.Fatal("not the same twice")
		case d > r.Delay(n, previous, 1):
			t.Fatalf("%v is longer than with the largest draw", d)
		case r.JitterKind == 0 && n < math.MaxInt && d > r.Delay(n+1, previous, u):
			t.Fatalf("%v after attempt %d, but less after the next", d, n)
		}
	})
}
