package sim

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// TestAnsweredTaskDoesNotTimeOut checks that a task does not time out while its answer is on its way to the engine, as
// the gateway locks a run until it has taken an answer. A timeout then would be refused, and count as a failure of the
// next task.
func TestAnsweredTaskDoesNotTimeOut(t *testing.T) {
	u := newUniverse(1, Options{NoFaults: true, Partitions: 1}.withDefaults())
	defer u.eachNode(func(n *node) { n.host.kill() })
	h := u.partitions[0].node.sdk
	until := func(what string, is func(r *sdkRun) bool) *sdkRun {
		t.Helper()
		for range 10_000 {
			for _, a := range u.checker.order {
				if r := h.runs[a.id]; r != nil && is(r) {
					return r
				}
			}
			u.step()
		}
		t.Fatalf("%s: it does not happen", what)
		return nil
	}
	u.sdk.start()
	r := until("a worker has a task", func(r *sdkRun) bool { return r.out != nil })
	task := r.out
	h.complete(task)
	if r.busy == nil {
		t.Fatal("the answer is not on its way")
	}
	h.fail(task, &history.Meta{Identity: "worker"})
	until("the engine has answered", func(o *sdkRun) bool { return o == r && h.n.host.pending[r.id] == 0 })
	if u.violation != nil || r.fold.Turns != 1 || r.fold.Completed == 0 || r.failed != 0 {
		t.Errorf("%v; %d answers, the last one completed with event %d, and %d failures behind it", u.violation,
			r.fold.Turns, r.fold.Completed, r.failed)
	}
}
