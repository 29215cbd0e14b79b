package api

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/policy"
)

// TestResults are the results of a step's tests, from its JUnit files.
type TestResults struct {
	Total   int `json:"total"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"` // those that ended with an error included
	Skipped int `json:"skipped"`
	// Failures are the tests that failed, at most the first fifty.
	Failures []FailedTest `json:"failures,omitempty"`
}

// FailedTest is a test that failed.
type FailedTest struct {
	Suite   string `json:"suite,omitempty"` // its class, or its suite where it has none
	Name    string `json:"name"`
	Message string `json:"message,omitempty"` // one line
	// File is the source, if the JUnit file names it: with the folder of the step, where it was found there.
	File    string  `json:"file,omitempty"`
	Line    int     `json:"line,omitempty"`
	Seconds float64 `json:"seconds,omitempty"` // how long it took, as the JUnit file says
}

// String returns the counts: 14 tests: 11 passed, 2 failed, 1 skipped.
func (r *TestResults) String() string {
	text := fmt.Sprintf("%d tests: %d passed", r.Total, r.Passed)
	if r.Total == 1 {
		text = fmt.Sprintf("1 test: %d passed", r.Passed)
	}
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d failed", r.Failed)
	}
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", r.Skipped)
	}
	return text
}

// Title returns the name of a test with its suite.
func (f *FailedTest) Title() string {
	if f.Suite == "" {
		return f.Name
	}
	return f.Suite + " " + f.Name
}

// Tests returns the results of the tests that the step has run last, or nil if it names no JUnit files.
func (s *Step) Tests() *TestResults {
	switch {
	case s.Type != "exec":
		return nil
	case s.Failure != nil:
		return TestsOf(s.Failure)
	default:
		return testsIn(s.Output)
	}
}

// TestsOf returns the results of the tests of an attempt that failed, or nil if it has none.
func TestsOf(f *policy.Failure) *TestResults { return testsIn(f.Details) }

// testsIn returns the results within an output, or nil if it has none, or something else of that name.
func testsIn(output []byte) *TestResults {
	var with struct {
		Tests *TestResults `json:"tests"`
	}
	if json.Unmarshal(output, &with) != nil {
		return nil
	}
	return with.Tests
}
