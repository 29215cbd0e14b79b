package cases

import (
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/internal/systems"
	"github.com/pawl-dev/pawl/policy"
)

func TestUnknownSystem(t *testing.T) {
	_, err := translate("stepp", nil)
	want := `unknown system "stepp"; use one of aether, native, steep, stevora, temporal, zart`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{
		`{"service": {"retries": {"maxAttempts": 3, "delay": "1s"}, 
				"deadline": {"timeout": "1h", "errorOnTimeout": true}}}`,
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
		for _, system := range append(systems.Names(), native) {
			p, err := translate(system, v)
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
