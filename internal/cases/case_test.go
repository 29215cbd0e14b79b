package cases

import "testing"

// TestMaxSteps stops a case after so many attempts, whatever their delay is. A retry without a delay is ready in the
// same instant in which the attempt before it ended, so the step is never seen backing off.
func TestMaxSteps(t *testing.T) {
	for name, test := range map[string]struct{ policy, script string }{
		"no delay": {`{retry: {maxAttempts: unlimited, initialInterval: 0}}`, `{run: 1s, end: error}`},
		"delay":    {`{retry: {maxAttempts: unlimited, initialInterval: 5s}}`, `{run: 1s, end: error}`},
		"lost":     {`{}`, `{run: 1s, end: lost}`},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := Parse("cases.yaml", []byte(`[{name: a, maxSteps: 1, policy: `+test.policy+`, script: [`+
				test.script+`], expect: {attempts: [{at: 0, started: 0, ended: 1000}], phase: backing_off, reason: "",
    at: 1000}}]`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := list[0].Run()
			if err != nil {
				t.Fatal(err)
			}
			if err := list[0].Check(r); err != nil {
				t.Error(err)
			}
		})
	}
}
