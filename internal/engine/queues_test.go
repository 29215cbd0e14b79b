package engine

import (
	"reflect"
	"slices"
	"testing"
)

// TestQueueStats tells of attempts that run and wait, and of slots that are free.
func TestQueueStats(t *testing.T) {
	r := newRig(t, 3)
	want := func(name string, want ...QueueStats) {
		t.Helper()
		r.settle()
		c := ask(r, &QueuesCall{})
		r.settle()
		same := func(a, b QueueStats) bool {
			waits := a.Waits
			a.Waits, b.Waits = nil, nil
			return reflect.DeepEqual(a, b) && len(waits) == a.Waiting
		}
		if c.Err != nil || !slices.EqualFunc(c.Answer, want, same) {
			t.Errorf("%s: %+v, %v; want %+v", name, c.Answer, c.Err, want)
		}
	}
	want("at first")
	r.start(flow("one", task()))
	want("one runs", QueueStats{Type: "noop", Running: 1, Free: 2})
	for range 4 {
		r.start(flow("one", task()))
	}
	want("there are too many", QueueStats{Type: "noop", Running: 3, Waiting: 2})
	for range 5 {
		for _, task := range r.workers.dispatched() {
			r.p.Report(task.Token.Run, succeed(task), r.now)
			r.settle()
		}
	}
	want("all have ended", QueueStats{Type: "noop", Free: 3})
}
