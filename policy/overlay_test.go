package policy_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/judge/judgetest"
	"github.com/pawl-dev/pawl/policy"
)

func TestOverlay(t *testing.T) {
	for _, test := range []struct{ name, base, over, want string }{
		{
			"nothing over", `{"retry": "fixed(3, 1s)", "timeout": "5m"}`, `{}`,
			`{"retry": "fixed(3, 1s)", "timeout": "5m"}`,
		},
		{
			"each independently",
			`{"retry": "fixed(3, 1s)", "timeout": {"startToClose": "1m", "scheduleToClose": "5m"}}`,
			`{"timeout": {"startToClose": "2m", "heartbeat": "5s"}}`,
			`{"retry": "fixed(3, 1s)", "timeout": {"startToClose": "2m", "scheduleToClose": "5m", "heartbeat": "5s"}}`,
		},
		{
			"a limit as a whole", `{"timeout": {"startToClose": {"after": "1m", "onExpire": "cancel", "warn": "80%"}}}`,
			`{"timeout": {"startToClose": "5m"}}`, `{"timeout": {"startToClose": "5m"}}`,
		},
		{
			"retry as a whole", `{"retry": {"maxAttempts": 5, "jitter": 1, "nonRetryable": ["Bad"]}}`,
			`{"retry": {"maxAttempts": 3}}`, `{"retry": {"maxAttempts": 3}}`,
		},
		{"retry none", `{"retry": "fixed(3, 1s)"}`, `{"retry": "none"}`, `{"retry": {"maxAttempts": 1}}`},
		{
			"limit none", `{"timeout": {"startToClose": "1m", "wait": "1h"}}`, `{"timeout": {"startToClose": "none"}}`,
			`{"timeout": {"wait": "1h"}}`,
		},
		{"none of none", `{}`, `{"timeout": {"startToClose": "none"}}`, `{}`},
		{"none below", `{"timeout": {"startToClose": "none"}}`, `{}`, `{}`},
	} {
		var base, over, want policy.Policy
		must(t, json.Unmarshal([]byte(test.base), &base))
		must(t, json.Unmarshal([]byte(test.over), &over))
		must(t, json.Unmarshal([]byte(test.want), &want))
		if got := base.Overlay(over); !reflect.DeepEqual(got, want) {
			data, err := json.Marshal(got)
			t.Errorf("%s: got %s, %v", test.name, data, err)
		}
	}
}

func TestOverlayProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, over := judgetest.Policy(t), judgetest.Policy(t)
		got := base.Overlay(over)
		if again := got.Overlay(over); !reflect.DeepEqual(again, got) {
			t.Fatal("laying the same over again changed something")
		}
		if again := got.Overlay(policy.Policy{}); !reflect.DeepEqual(again, got) {
			t.Fatal("laying nothing over changed something")
		}
		for _, kind := range policy.StepLimits {
			limit := got.Get(kind)
			if limit != nil && limit != over.Get(kind) && limit != base.Get(kind) {
				t.Fatalf("%s comes from nowhere", kind)
			}
		}
	})
}
