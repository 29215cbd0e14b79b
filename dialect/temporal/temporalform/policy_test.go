package temporalform

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/dialect/internal/policytest"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// TestPolicy checks translations of policies, and that a translation does not contradict itself.
func TestPolicy(t *testing.T) {
	policytest.Run(t, "testdata/policy", func(v any) (policy.Policy, error) {
		p, err := Policy(v)
		for _, finding := range judge.Lint(&p, 0) {
			if finding.Code == "limit-never-fires" {
				t.Errorf("%v: %s", v, finding.Message)
			}
		}
		return p, err
	})
}

// shorter returns the shorter of two amounts; 0 stands for no amount.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// TestNests checks that the translation of any timeouts nests as Temporal's server nests them.
func TestNests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := map[string]any{}
		for _, key := range []string{
			"scheduleToStartTimeout", "startToCloseTimeout", "scheduleToCloseTimeout", "heartbeatTimeout",
		} {
			if rapid.Bool().Draw(t, "has "+key) {
				form[key] = rapid.IntRange(1, 10_000).Draw(t, key)
			}
		}
		p, err := Policy(form)
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
			shorter(length(policy.LimitScheduleToStart), whole) != shorter(given("scheduleToStartTimeout"),
				wantWhole) ||
			shorter(length(policy.LimitHeartbeat), attempt) != shorter(given("heartbeatTimeout"), wantAttempt) ||
			length(policy.LimitHeartbeat) > attempt {
			t.Fatalf("%v became %s", form, policytest.Summary(&p))
		}
	})
}
