package judge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/internal/judge/judgetest"
	"github.com/pawl-dev/pawl/policy"
)

// TestLint shows what is found in the policies in testdata/lint; run= gives the run's limit.
func TestLint(t *testing.T) {
	datadriven.Walk(t, "testdata/lint", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var p policy.Policy
			must(t, json.Unmarshal([]byte(d.Input), &p))
			run := "0"
			d.MaybeScanArgs(t, "run", &run)
			runLimit, err := duration.Parse(run)
			must(t, err)
			var out strings.Builder
			for _, f := range judge.Lint(&p, runLimit) {
				fmt.Fprintf(&out, "%s %s: %s\n", f.Code, strings.Join(f.Path, "."), f.Message)
			}
			if out.Len() == 0 {
				return "nothing\n"
			}
			return out.String()
		})
	})
}

// TestLintIsHarmless checks that whatever the policy, each finding is complete and points somewhere.
func TestLintIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := judgetest.Policy(t)
		for _, f := range judge.Lint(&p, judgetest.Amount(t, "run")) {
			if f.Code == "" || f.Message == "" || len(f.Path) < 2 {
				t.Fatalf("%+v", f)
			}
		}
	})
}
