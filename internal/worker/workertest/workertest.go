// Package workertest is shared by the tests of executors.
package workertest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// Patience bounds the wait for something that should come at once.
const Patience = 20 * time.Second

// Signs is a worker.Alive that keeps the signs of life it gets.
type Signs struct {
	Outputs chan struct{} // one for each sign of output, as long as there is room
	Beats   chan string   // the details of heartbeats
}

// NewSigns returns a Signs without signs.
func NewSigns() *Signs { return &Signs{make(chan struct{}, 1<<12), make(chan string, 100)} }

func (s *Signs) Output() {
	select {
	case s.Outputs <- struct{}{}:
	default: // nobody has read the earlier signs yet
	}
}

func (s *Signs) Heartbeat(details []byte) { s.Beats <- string(details) }

// Await waits for a sign of output.
func (s *Signs) Await(t *testing.T) {
	t.Helper()
	select {
	case <-s.Outputs:
	case <-time.After(Patience):
		t.Fatal("no sign of life")
	}
}

// Run differs between test processes. Processes are found and stopped by the run id in their environment, and the tests
// may run twice on a machine at the same time.
var Run = core.RunID{
	1, 2, 3, 12: byte(os.Getpid() >> 24), 13: byte(os.Getpid() >> 16),
	14: byte(os.Getpid() >> 8), 15: byte(os.Getpid()),
}

// Task returns the second attempt of a step of Run.
func Task(taskType, payload string) core.Task {
	return core.Task{
		Token:    core.Token{Run: Run, Step: 4, Attempt: 2},
		StepName: "build", Workflow: "w", Type: taskType, Payload: []byte(payload), Count: 2,
	}
}

// JSON returns a value as JSON.
func JSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Field returns the value of one key of a JSON object as JSON, or "" if the key is missing.
func Field(t *testing.T, object []byte, key string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil {
		t.Fatalf("%v in %s", err, object)
	}
	var b bytes.Buffer
	if m[key] == nil {
		return ""
	}
	if err := json.Compact(&b, m[key]); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// WantFailure fails the test if f is not of that kind and type.
func WantFailure(t *testing.T, f *policy.Failure, kind policy.Kind, failureType string) {
	t.Helper()
	switch {
	case f == nil:
		t.Fatalf("it succeeded; want %s %s", kind, failureType)
	case f.Kind != kind || f.Type != failureType:
		t.Fatalf("failure is %v; want %s %s", f, kind, failureType)
	}
}
