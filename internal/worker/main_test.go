package worker

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// The test binary also acts as the worker that is killed, see play.
func TestMain(m *testing.M) {
	if role := os.Getenv("WORKER_TEST_ROLE"); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds the wait for something that should come at once.
const patience = 20 * time.Second

// reports is a Reporter that keeps the reports.
type reports struct {
	mu   sync.Mutex
	all  []core.Input
	news chan core.Input
}

func newReports() *reports { return &reports{news: make(chan core.Input, 1000)} }

func (r *reports) Report(_ core.RunID, in core.Input) {
	r.mu.Lock()
	r.all = append(r.all, in)
	r.mu.Unlock()
	r.news <- in
}

func (r *reports) beats() []core.Beat {
	r.mu.Lock()
	defer r.mu.Unlock()
	var beats []core.Beat
	for _, in := range r.all {
		if b, ok := in.(core.Beat); ok {
			beats = append(beats, b)
		}
	}
	return beats
}

// next returns the next report of this type, and skips others.
func next[T core.Input](t *testing.T, r *reports) T {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case in := <-r.news:
			if want, ok := in.(T); ok {
				return want
			}
		case <-late:
			t.Fatalf("no %T was reported", *new(T))
		}
	}
}

// lifeSigns is an Alive that counts.
type lifeSigns struct {
	outputs chan struct{}
	beats   chan string
}

func newSigns() *lifeSigns { return &lifeSigns{make(chan struct{}, 1<<12), make(chan string, 100)} }

func (s *lifeSigns) Output() {
	select {
	case s.outputs <- struct{}{}:
	default: // nobody has read the earlier signs yet
	}
}

func (s *lifeSigns) Heartbeat(details []byte) { s.beats <- string(details) }

// await waits for a sign of life.
func (s *lifeSigns) await(t *testing.T) {
	t.Helper()
	select {
	case <-s.outputs:
	case <-time.After(patience):
		t.Fatal("no sign of life")
	}
}

// testRun differs between test processes. Processes are found and stopped by the run id in their environment, and the
// tests may run twice on a machine at the same time.
var testRun = core.RunID{
	1, 2, 3, 12: byte(os.Getpid() >> 24), 13: byte(os.Getpid() >> 16),
	14: byte(os.Getpid() >> 8), 15: byte(os.Getpid()),
}

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

// field returns the value of one key of a JSON object as JSON, or "" if the key is missing.
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
