package engine

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestSetsOfRemoteWorkers checks that workers in other processes that speak several protocols have tasks of their own:
// a queue belongs to the first set that serves it, before and after the engine is opened again. What belongs to a set
// that is gone is lost.
func TestSetsOfRemoteWorkers(t *testing.T) {
	r := newRig(t, 2)
	sets := func() (post, others *remoteFake) {
		post = &remoteFake{fakeWorkers: newFakeWorkers(2), queues: []string{"post"}}
		others = &remoteFake{fakeWorkers: newFakeWorkers(2)}
		post.report, others.report = r.workers.report, r.workers.report
		return post, others
	}
	post, others := sets()
	r.openWith(nil, post, others)
	letter := task().tries(3, 0)
	letter.Queue = "post"
	posted, other := r.start(flow("posted", letter, task())), r.start(flow("other", task().tries(3, 0)))
	r.settle()
	for set, id := range map[*remoteFake]core.RunID{post: posted, others: other} {
		if tasks := set.dispatched(); len(tasks) != 1 || tasks[0].Token.Run != id {
			t.Errorf("the workers of run %s have %+v", id, tasks)
		}
	}
	post.slots = 0
	r.start(flow("posted", letter, task()))
	r.settle()
	if tasks := others.dispatched(); len(tasks) != 0 {
		t.Errorf("what waits for its own workers went to others: %+v", tasks)
	}

	post, others = sets()
	r.openWith(nil, post, others)
	r.settle()
	for set, id := range map[*remoteFake]core.RunID{post: posted, others: other} {
		if tok := (core.Token{Run: id, Attempt: 1}); !slices.Equal(set.kept, []core.Token{tok}) {
			t.Errorf("the workers of run %s keep %v", id, set.kept)
		}
	}
	ask(r, &InputCall{Run: other, Input: core.Operation{Op: core.OpTerminate, Step: core.NoStep}})
	r.settle()
	if len(post.stopped) != 0 || !slices.Equal(others.stopped, others.kept) {
		t.Errorf("told to stop: %v and %v", post.stopped, others.stopped)
	}

	_, others = sets()
	others.queues = []string{""}
	r.openWith(nil, others)
	r.settle()
	if s := &r.state(posted).Steps[0]; s.Attempt != 2 || s.Phase != core.StepScheduled ||
		slices.ContainsFunc(others.kept, func(tok core.Token) bool { return tok.Run == posted }) {
		t.Errorf("without its workers the step is %s, attempt %d; others keep %v", s.Phase, s.Attempt, others.kept)
	}
}

// TestRevokeOfWhatIsNotHeld checks that the set of remote workers that knows an attempt is told to stop it, although
// the engine gave it no slot.
func TestRevokeOfWhatIsNotHeld(t *testing.T) {
	r := newRig(t, 1)
	first := &remoteFake{fakeWorkers: newFakeWorkers(0), queues: []string{"post"}}
	second := &remoteFake{fakeWorkers: newFakeWorkers(0)}
	var stopped []core.Token
	first.report = func(run core.RunID, _ core.Input) { stopped = append(stopped, core.Token{Run: run}) }
	r.openWith(nil, first, second)
	tok := core.Token{Run: core.RunID{1}, Attempt: 1}
	second.kept = []core.Token{tok}
	r.p.tasks.revoke(tok, policy.KindCancelled)
	if !slices.Equal(second.stopped, []core.Token{tok}) || len(stopped) != 0 {
		t.Errorf("told to stop: %v by those who know it, %v by others", second.stopped, stopped)
	}
}
