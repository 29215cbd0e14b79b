package policy_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/judge/judgetest"
	"github.com/pawl-dev/pawl/policy"
)

// TestDecode reads the policies in testdata/decode and writes them back, or the error and where it points.
func TestDecode(t *testing.T) {
	datadriven.Walk(t, "testdata/decode", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				out.WriteString(decoded(t, d.Cmd, line) + "\n")
			}
			return out.String()
		})
	})
}

func decoded(t *testing.T, what, line string) string {
	var v, read any
	must(t, json.Unmarshal([]byte(line), &v))
	var err error
	switch what {
	case "policy":
		read, err = policy.DecodePolicy(v)
	case "retry":
		read, err = policy.DecodeRetry(v)
	case "limits":
		var limits policy.Limits
		err = json.Unmarshal([]byte(line), &limits)
		read = limits
	default:
		var kind policy.LimitKind
		must(t, kind.UnmarshalText([]byte(what)))
		read, err = kind.DecodeLimit(v)
	}
	if err != nil {
		var field *decode.Error
		if !errors.As(err, &field) {
			t.Errorf("%s: %T names no field", line, err)
		}
		return "error: " + err.Error()
	}
	out, err := json.Marshal(read)
	must(t, err)
	return string(out)
}

// TestDecodeNumbers checks that decoders yield numbers in many types.
func TestDecodeNumbers(t *testing.T) {
	for _, n := range []any{3, int64(3), uint64(3), uint8(3), 3.0, float32(3), json.Number("3"), json.Number("3.0")} {
		r, err := policy.DecodeRetry(map[string]any{"maxAttempts": n, "initialInterval": n, "backoffCoefficient": n})
		if err != nil || r.MaxAttempts != 3 || r.InitialInterval != 3*time.Millisecond || r.BackoffCoefficient != 3 {
			t.Errorf("%T: %v, %v", n, r, err)
		}
	}
	for _, n := range []any{
		3.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, uint64(math.MaxUint64),
		json.Number("3.5"), json.Number("1e99"),
		json.Number("no"), true, "3",
		[]any{3},
		map[string]any{},
		struct{}{},
		int64(math.MaxInt64), float64(1 << 63),
	} {
		if r, err := policy.DecodeRetry(map[string]any{"maxAttempts": n}); err == nil {
			t.Errorf("maxAttempts %v (%T) was read as %v", n, n, r)
		}
	}
}

func TestDecodeInstant(t *testing.T) {
	instant := time.Date(2030, 1, 31, 18, 0, 0, 0, time.FixedZone("", 3600))
	for _, v := range []any{instant, "2030-01-31T18:00:00+01:00", map[string]any{"at": instant}} {
		limit, err := policy.LimitDeadline.DecodeLimit(v)
		if err != nil || limit.At != policy.At(instant) || limit.After != 0 {
			t.Errorf("%v: %+v, %v", v, limit, err)
		}
	}
	if limit, err := policy.LimitStartToClose.DecodeLimit(instant); err == nil {
		t.Errorf("startToClose at an instant: %+v", limit)
	}
}

// TestRoundTrip checks that a policy is the same after it was stored in a journal and read.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := judgetest.Policy(t)
		if p.Retry != nil && p.Retry.JitterKind == policy.JitterDecorrelated {
			p.Retry.Jitter = 0 // means nothing beside it, and is not kept
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again policy.Policy
		if err := json.Unmarshal(data, &again); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if !reflect.DeepEqual(p, again) {
			t.Fatalf("%s\nread as %s", data, mustJSON(t, again))
		}
		if p.Retry != nil {
			checkPreset(t, p.Retry)
		}
	})
}

// checkPreset checks that ParsePreset reads the text of String, without On, When and NonRetryable, as the same delays.
func checkPreset(t *rapid.T, r *policy.Retry) {
	plain := *r
	plain.On, plain.When, plain.NonRetryable = nil, "", nil
	parsed, err := policy.DecodeRetry(plain.String())
	if err != nil {
		t.Fatalf("%s: %v", plain.String(), err)
	}
	if parsed.String() != plain.String() || parsed.MaxAttempts != r.MaxAttempts {
		t.Fatalf("%s was read as %s", plain.String(), parsed)
	}
	for n := 1; n < 5 && r.MaxAttempts != 1; n++ {
		if got, want := parsed.Delay(n, time.Second, 0.5), r.Delay(n, time.Second, 0.5); got != want {
			t.Fatalf("%s: %v after attempt %d, want %v", plain.String(), got, n, want)
		}
	}
}

func mustJSON(t *rapid.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestUnmarshalJSON(t *testing.T) {
	p := policy.Policy{Retry: &policy.Retry{MaxAttempts: 3}}
	must(t, json.Unmarshal([]byte(`null`), &p))
	if p.Retry.MaxAttempts != 3 {
		t.Error("null changed the policy")
	}
	var limit policy.Limit
	must(t, json.Unmarshal([]byte(`{"after": "5m", "retry": true}`), &limit))
	if limit.After != 5*time.Minute || !limit.Retry {
		t.Errorf("got %+v", limit)
	}
	var limits policy.Limits
	must(t, json.Unmarshal([]byte(`"5m"`), &limits))
	if limits.ScheduleToClose.After != 5*time.Minute {
		t.Errorf("got %+v", limits)
	}
	// A limit too short to be written in milliseconds must not become none.
	data, err := json.Marshal(policy.Limit{After: time.Microsecond})
	must(t, err)
	if want := `{"after":"1ms","retry":false}`; string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
}

func FuzzDecodePolicy(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"retry": "exponential(5, 1s, max=30s, factor=3, jitter=0.25)", "timeout": "5m"}`,
		`{"retry": {"maxAttempts": "unlimited", "on": ["error"], "jitter": "decorrelated"}}`,
		`{"timeout": {"deadline": {"at": "2030-01-31T18:00:00Z"}, "wait": "none"}}`,
		`{"timeout": {"heartbeat": {"after": 5000, "warn": "80%"}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p, again policy.Policy
		if json.Unmarshal([]byte(text), &p) != nil {
			return
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", p, err)
		}
		if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%s\nread as %+v, %v\nwant    %+v", data, again, err, p)
		}
	})
}

func FuzzParsePreset(f *testing.F) {
	for _, seed := range []string{
		"none", "fixed(3, 1s)",
		"exponential(unlimited, 1s, max=30s, factor=1.5, jitter=decorrelated)", "fixed(",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := policy.DecodeRetry(text)
		if err != nil {
			return
		}
		if again, err := policy.DecodeRetry(r.String()); err != nil || again.String() != r.String() {
			t.Fatalf("%q is %s, which is read as %s, %v", text, r, again, err)
		}
	})
}
