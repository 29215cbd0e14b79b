package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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

// TestBeside checks that two parts run at the same time, that the output of the second is shown in one piece after the
// first one's, and that it counts.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"there", "back"} {
		if out, err := exec.Command("mkfifo", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Skipf("no named pipes: %v %s", err, out)
		}
	}
	t.Chdir(dir)
	var out bytes.Buffer
	if run([]string{
		"first", "sh", "-c", "echo to >there; cat back; echo first ends", "+",
		"second", "sh", "-c", "cat there; echo from >back; echo second ends; exit 3", ":",
		"third", "echo", "third ends",
	}, &out, &bytes.Buffer{}) {
		t.Error("it went well")
	}
	shown, _, _ := strings.Cut(out.String(), "\n\n")
	const want = "--> first\nfrom\nfirst ends\n--> second\nto\nsecond ends\n--> third\nthird ends"
	if shown != want {
		t.Errorf("it shows\n%s\nwant\n%s", shown, want)
	}
	if !strings.Contains(out.String(), "FAILED: exit status 3") {
		t.Errorf("the second part has not failed:\n%s", out.String())
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
