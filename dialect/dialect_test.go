package dialect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/policy"
)

// TestPolicy translates the forms in testdata/policy, one file a system, and shows the policies, or where a form is wrong.
// A translation's JSON is read back as itself, so that it can be journaled.
func TestPolicy(t *testing.T) {
	datadriven.Walk(t, "testdata/policy", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				var v any
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				out.WriteString(translate(t, d.Cmd, v) + "\n")
			}
			return out.String()
		})
	})
}

func translate(t *testing.T, system string, v any) string {
	p, err := dialect.Policy(system, v)
	if err != nil {
		var field *policy.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%T is no FieldError: %v", err, err)
		}
		return "error: " + err.Error()
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var again policy.Policy
	if err := json.Unmarshal(data, &again); err != nil {
		t.Errorf("%s cannot be read back: %v", data, err)
	}
	for _, finding := range policy.Lint(&p, 0) {
		if system == "temporal" && finding.Code == policy.LintLimitNeverFires {
			t.Errorf("%v: what was filled in contradicts itself: %s", v, finding.Message)
		}
	}
	return summary(&p)
}

// summary writes a policy in one line, the retry policy first.
func summary(p *policy.Policy) string {
	parts := []string{p.Retry.String()}
	for _, kind := range policy.StepLimits {
		limit := p.Get(kind)
		if limit == nil {
			continue
		}
		text := kind.String() + " " + duration.Format(limit.After)
		if limit.Retry {
			text += " retry"
		}
		if limit.OnExpire == policy.ExpireCancel {
			text += " cancel"
		}
		if limit.Origin != "" {
			text += " by " + limit.Origin
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func TestUnknownSystem(t *testing.T) {
	_, err := dialect.Policy("stepp", nil)
	want := `dialect: unknown system "stepp"; use one of aether, native, steep, stevora, temporal, zart`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestStevoraDelays holds the delays to the source's table, and to its formula in every draw.
func TestStevoraDelays(t *testing.T) {
	p, err := dialect.Policy("stevora", map[string]any{"retry": map[string]any{"maxAttempts": 5}})
	if err != nil {
		t.Fatal(err)
	}
	run := [16]byte{1, 2, 3}
	for n, base := range map[int]time.Duration{1: 1000, 2: 2000, 3: 4000, 4: 8000} {
		least, most := base*time.Millisecond, time.Duration(0)
		for i := range 10_000 {
			run[15], run[14] = byte(i), byte(i>>8)
			d := p.Retry.Delay(n, 0, policy.Random(run, "call-external-api", n))
			least, most = min(least, d), max(most, d)
		}
		if least < base*750*time.Microsecond || most >= base*time.Millisecond {
			t.Errorf("after attempt %d: from %v to %v", n, least, most)
		}
		if spread := base * 250 * time.Microsecond; most-least < spread*9/10 {
			t.Errorf("after attempt %d only from %v to %v", n, least, most)
		}
	}
}

func TestAetherExpression(t *testing.T) {
	for expression, want := range map[string]string{
		"":                                       "",
		"tasks.doomed.phase != 'Succeeded'":      "tasks.doomed.phase != 'Succeeded'",
		"tasks.wait-external.phase == 'Timeout'": `tasks["wait-external"].phase == 'Timeout'`,
		"tasks.a-b.code > 3 && tasks.c.msg == 'x'":      `tasks["a-b"].code > 3 && tasks.c.msg == 'x'`,
		"tasks.3d.code == 1":                            `tasks["3d"].code == 1`,
		"tasks.a.outputs.parameters.try-again":          `tasks.a.outputs.parameters["try-again"]`,
		"tasks.a-b.outputs.parameters.try-again == 'y'": `tasks["a-b"].outputs.parameters["try-again"] == 'y'`,
		"tasks.a.outputs.parameters.total-1 > 0":        "tasks.a.outputs.parameters.total-1 > 0",
		"tasks.a.msg == 'tasks.a-b.msg'":                "tasks.a.msg == 'tasks.a-b.msg'",
		`tasks.a.msg == "it's \"tasks.a-b.msg\""`:       `tasks.a.msg == "it's \"tasks.a-b.msg\""`,
		"tasks.a.code - tasks.b.code":                   "tasks.a.code - tasks.b.code",
	} {
		if got := dialect.AetherExpression(expression); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", expression, got, want)
		}
		if again := dialect.AetherExpression(want); again != want {
			t.Errorf("%s is rewritten again, to %s", want, again)
		}
	}
}

func TestAetherEnv(t *testing.T) {
	env := dialect.AetherEnv("doomed", dialect.AetherPhase(policy.KindFailed), 3, "no", map[string]any{"n": 1})
	want := "map[tasks:map[doomed:map[code:3 msg:no outputs:map[parameters:map[n:1]] phase:Failed]]]"
	if got := fmt.Sprint(env); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	phases := map[policy.Kind]string{
		0: "Succeeded", policy.KindError: "Error", policy.KindFailed: "Failed", policy.KindTimeout: "Timeout",
		policy.KindCancelled: "Cancelled", policy.KindLost: "Error",
	}
	for _, kind := range slices.Sorted(maps.Keys(phases)) {
		if got := dialect.AetherPhase(kind); got != phases[kind] {
			t.Errorf("%s is %s", kind, got)
		}
	}
}

// shorter is the shorter of two amounts, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// TestTemporalNests: whatever timeouts are given, what comes out nests as Temporal's server nests them.
func TestTemporalNests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := map[string]any{}
		for _, key := range []string{
			"scheduleToStartTimeout", "startToCloseTimeout", "scheduleToCloseTimeout", "heartbeatTimeout",
		} {
			if rapid.Bool().Draw(t, "has "+key) {
				form[key] = rapid.IntRange(1, 10_000).Draw(t, key)
			}
		}
		p, err := dialect.Policy("temporal", form)
		if form["startToCloseTimeout"] == nil && form["scheduleToCloseTimeout"] == nil {
			if err == nil {
				t.Fatalf("%v was accepted", form)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		length := func(kind policy.LimitKind) time.Duration {
			if limit := p.Get(kind); limit != nil {
				return limit.After
			}
			return 0
		}
		// The shortest limits that hold, what its server would have filled in or cut among them.
		whole := length(policy.LimitScheduleToClose)
		attempt := shorter(length(policy.LimitStartToClose), whole)
		given := func(key string) time.Duration {
			ms, _ := form[key].(int)
			return time.Duration(ms) * time.Millisecond
		}
		wantWhole := given("scheduleToCloseTimeout")
		wantAttempt := shorter(given("startToCloseTimeout"), wantWhole)
		if whole != wantWhole || attempt != wantAttempt ||
			shorter(length(policy.LimitScheduleToStart), whole) != shorter(given("scheduleToStartTimeout"), wantWhole) ||
			shorter(length(policy.LimitHeartbeat), attempt) != shorter(given("heartbeatTimeout"), wantAttempt) ||
			length(policy.LimitHeartbeat) > attempt {
			t.Fatalf("%v became %s", form, summary(&p))
		}
	})
}

func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{
		`{"service": {"retries": {"maxAttempts": 3, "delay": "1s"}, "deadline": {"timeout": "1h", "errorOnTimeout": true}}}`,
		`{"retry": {"maxAttempts": 5, "backoffMs": 2000, "backoffMultiplier": 3}}`,
		`{"retry": "fixed(3, 1s)", "timeout": "5m", "timeout_scope": "per_attempt"}`,
		`{"retry": {"limit": 2, "expression": "tasks.a-b.phase != 'Succeeded'"}, "timeout": "10s"}`,
		`{"startToCloseTimeout": "10s", "retryPolicy": {"initialInterval": "1.5s", "maximumAttempts": 3}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		for _, system := range dialect.Systems() {
			p, err := dialect.Policy(system, v)
			if err != nil {
				continue
			}
			for _, kind := range policy.StepLimits {
				if limit := p.Get(kind); limit != nil && limit.At == 0 && limit.After <= 0 {
					t.Errorf("%s: %s leaves no time for %s", system, text, kind)
				}
			}
			if _, err := json.Marshal(p); err != nil {
				t.Errorf("%s: %s: %v", system, text, err)
			}
		}
	})
}
