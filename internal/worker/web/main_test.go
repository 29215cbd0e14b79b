package web

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the wait for what should come at once.
const patience = 20 * time.Second

// lifeSigns is an Alive that counts.
type lifeSigns struct {
	outputs chan struct{}
	beats   chan string
}

func newSigns() *lifeSigns { return &lifeSigns{make(chan struct{}, 1<<12), make(chan string, 100)} }

func (s *lifeSigns) Output() {
	select {
	case s.outputs <- struct{}{}:
	default: // enough
	}
}

func (s *lifeSigns) Heartbeat(details []byte) { s.beats <- string(details) }

var testRun = core.RunID{1, 2, 3}

func testTask(taskType, payload string) core.Task {
	return core.Task{
		Token:    core.Token{Run: testRun, Step: 4, Attempt: 2},
		StepName: "build", Workflow: "w", Type: taskType, Payload: []byte(payload), Count: 2,
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// field returns one key of a JSON object as JSON, or "" where it has none.
func field(t *testing.T, object []byte, key string) string {
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

func wantFailure(t *testing.T, f *policy.Failure, kind policy.Kind, failureType string) {
	t.Helper()
	switch {
	case f == nil:
		t.Fatalf("it succeeded; want %s %s", kind, failureType)
	case f.Kind != kind || f.Type != failureType:
		t.Fatalf("failure is %v; want %s %s", f, kind, failureType)
	}
}
