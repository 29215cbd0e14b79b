// Package policytest tests the translation of other systems' policies.
package policytest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/policy"
)

// Run translates the forms in a folder of transcripts, one in each line, and shows the policies, or where a form is
// wrong. A policy's JSON must be read back as itself, so that it can be journaled.
func Run(t *testing.T, dir string, translate func(v any) (policy.Policy, error)) {
	t.Helper()
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				var v any
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				out.WriteString(describe(t, translate, v) + "\n")
			}
			return out.String()
		})
	})
}

func describe(t *testing.T, translate func(v any) (policy.Policy, error), v any) string {
	t.Helper()
	p, err := translate(v)
	if err != nil {
		var field *decode.Error
		if !errors.As(err, &field) {
			t.Errorf("%T names no field: %v", err, err)
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
	return Summary(&p)
}

// Summary writes a policy in one line, the retry policy first.
func Summary(p *policy.Policy) string {
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
