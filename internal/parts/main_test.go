package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestGoesOn checks that a failed part does not keep the next one from running, and that both are in the summary.
func TestGoesOn(t *testing.T) {
	const program = "PAWL_TEST_PART"
	if os.Getenv(program) != "" {
		t.Log("run as a part")
		return
	}
	t.Setenv(program, "1")
	var out bytes.Buffer
	if run([]string{"first", "no-such-program", ":", "second", os.Args[0], "-test.run=^TestGoesOn$", "-test.v"},
		&out, &bytes.Buffer{}) {
		t.Error("it went well")
	}
	for _, want := range []string{"--> second", "run as a part", "FAILED: ", "\nsecond "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
	if run(nil, &out, &out) {
		t.Error("nothing to run went well")
	}
}

// TestResults checks that tests that failed or did not end are shown with their output, and that others are only
// counted.
func TestResults(t *testing.T) {
	const told = `{"Action":"output","Package":"github.com/pawl-dev/pawl/flow","Test":"TestA","Output":"A prints\n"}
{"Action":"pass","Package":"github.com/pawl-dev/pawl/flow","Test":"TestA","Elapsed":2}
{"Action":"output","Package":"github.com/pawl-dev/pawl/flow","Test":"TestB/x","Output":"x prints\n"}
{"Action":"fail","Package":"github.com/pawl-dev/pawl/flow","Test":"TestB/x","Elapsed":3}
{"Action":"fail","Package":"github.com/pawl-dev/pawl/flow","Test":"TestB","Elapsed":3}
{"Action":"skip","Package":"github.com/pawl-dev/pawl/flow","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"github.com/pawl-dev/pawl/flow","Test":"TestD","Output":"panic: D\n"}
{"Action":"fail","Package":"github.com/pawl-dev/pawl/flow","Elapsed":5}
{"ImportPath":"github.com/pawl-dev/pawl","Action":"build-output","Output":"x.go:1: wrong\n"}
{"Action":"pass","Package":"github.com/pawl-dev/pawl","Elapsed":1}
no event
`
	var out bytes.Buffer
	p := &part{name: "tests", tests: results{}}
	p.tests.read(strings.NewReader(told), &out)
	const want = `x prints
panic: D
FAIL    5.0s  flow
x.go:1: wrong
ok      1.0s  .
no event
`
	if out.String() != want {
		t.Errorf("it shows\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	if !summary([]*part{p}, &out) {
		t.Error("only the exit status of go test tells whether it went well")
	}
	const summed = `
tests                       0.0s  ok
    failed: flow TestB/x
    failed: flow TestB
    failed: flow
    1 tests passed, 1 were skipped, slowest:
       3.0s  flow TestB
       2.0s  flow TestA
       0.0s  flow TestC
`
	if out.String() != summed {
		t.Errorf("it sums up\n%swant\n%s", out.String(), summed)
	}
}
