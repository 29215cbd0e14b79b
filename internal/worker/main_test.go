package worker

import (
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/worker/workertest"
)

// TestMain checks that the test binary also acts as the worker that is killed, see play.
func TestMain(m *testing.M) {
	if role := os.Getenv("WORKER_TEST_ROLE"); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

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
	late := time.After(workertest.Patience)
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
