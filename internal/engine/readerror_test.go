package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

var errRead = errors.New("input/output error")

// unreliableReads is a journal in which reading some runs fails a few times.
type unreliableReads struct {
	journal.Journal

	mu       sync.Mutex
	failures map[core.RunID]int
}

// failReads makes the next reads of a run fail.
func (j *unreliableReads) failReads(id core.RunID, times int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failures = map[core.RunID]int{id: times}
}

// failuresLeft returns how many more times reading the run will fail.
func (j *unreliableReads) failuresLeft(id core.RunID) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failures[id]
}

func (j *unreliableReads) History(ctx context.Context, id core.RunID) (journal.History, error) {
	j.mu.Lock()
	n := j.failures[id]
	if n > 0 {
		j.failures[id] = n - 1
	}
	j.mu.Unlock()
	if n > 0 {
		return journal.History{}, errRead
	}
	return j.Journal.History(ctx, id)
}

// TestInputWaitsForARunThatCannotBeRead checks that a parent that is not in memory and cannot be read is told of its
// child's end as soon as it can be read.
func TestInputWaitsForARunThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := flow("inner", nap(time.Hour))
		j := &unreliableReads{Journal: memory.New()}
		e, _ := open(t, j, -1, succeed, func(c *Config) {
			c.Kinds = map[string]Kind{"plan": {
				Compile: compilePlan,
				Child: func(core.DefinitionID, []byte) (Child, error) {
					return Child{Definition: inner.definition()}, nil
				},
			}}
		})
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("parent", child(payload("inner")), nap(time.Hour)))
		<-time.After(30 * time.Minute)
		if s := e.Stats(); s.Loaded != 0 {
			t.Fatalf("%d runs are in memory", s.Loaded)
		}
		j.failReads(id, 3)
		<-time.After(45 * time.Minute)
		if n := j.failuresLeft(id); n != 0 {
			t.Fatalf("the parent was read %d times, want 3 at least", 3-n)
		}
		if s := e.Stats(); s.Stalled != "" {
			t.Fatal(s.Stalled)
		}
		began := time.Now()
		out, err := e.Result(t.Context(), id)
		if err != nil || out.Phase != core.RunSucceeded {
			t.Fatalf("%+v, %v", out, err)
		}
		if took := time.Since(began); took > 50*time.Minute {
			t.Fatalf("the parent went on %s late", took-45*time.Minute)
		}
	})
}

// answersInWriting decides for runs whose bodies are asked in writing and have one child run.
type answersInWriting struct{ decidesElsewhere }

func (answersInWriting) Decide(*core.Run, []core.StepID, core.Time) []core.Command { return nil }

// TestNewsWaitsForAnHeirThatCannotBeRead checks that a run which a reset has made hears of the end of a child run that
// the run before it has begun, though it is not in memory and cannot be read when the child ends.
func TestNewsWaitsForAnHeirThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := flow("inner", nap(time.Hour))
		j := &unreliableReads{Journal: memory.New()}
		e, _ := open(t, j, -1, succeed, func(c *Config) {
			c.Kinds = map[string]Kind{"plan": {
				Compile: func(d journal.Definition) (*core.Definition, error) {
					if d.Name == "inner" {
						return compilePlan(d)
					}
					decider := func(*core.Run) core.Decider { return answersInWriting{} }
					return &core.Definition{NewDecider: decider, HasBody: true, Answers: true}, nil
				},
				Child: func(core.DefinitionID, []byte) (Child, error) {
					return Child{Definition: inner.definition()}, nil
				},
				Bodies: &quickBodies{silent: true},
			}}
		})
		defer closeEngine(t, e)
		started, err := e.Start(t.Context(), StartRequest{
			Definition: flow("parent").definition(), Start: core.Start{WorkflowID: "parent"},
		})
		if err != nil {
			t.Fatal(err)
		}
		base := started.Run
		e.Do(base, NewBody(0), []core.Input{core.Commands{Commands: []core.Command{
			core.Answer{Seen: 1},
			core.Schedule{
				Spec: &core.StepSpec{Name: "child", Def: -1, Kind: core.KindChild}, Item: -1, Group: core.NoStep,
			},
		}}}, nil)
		<-time.After(10 * time.Minute)
		entries, err := e.Entries(t.Context(), base, 0)
		if err != nil {
			t.Fatal(err)
		}
		heir, err := e.Fork(t.Context(), ForkRequest{
			WorkflowID: "parent", Entries: entries, Open: base, Seq: len(entries), Keep: 1,
			Input: core.Forked{Answer: core.Answer{Turn: 1, Seen: len(entries)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		known := core.Answer{Turn: 2, Seen: len(entries) + 1}
		e.Do(heir, NewBody(0), []core.Input{core.Commands{Commands: []core.Command{known}}}, nil)
		<-time.After(20 * time.Minute)
		if s := e.Stats(); s.Loaded != 0 {
			t.Fatalf("%d runs are in memory", s.Loaded)
		}
		j.failReads(heir, 3)
		<-time.After(time.Hour)
		if n := j.failuresLeft(heir); n != 0 {
			t.Fatalf("the heir was read %d times, want 3 at least", 3-n)
		}
		s, err := e.Inspect(t.Context(), heir)
		if err != nil || len(s.Steps) != 1 || s.Steps[0].Phase != core.StepSucceeded {
			t.Errorf("the heir has the steps %+v, %v", s.Steps, err)
		}
	})
}

// removedRun is a journal from which one run was removed.
type removedRun struct {
	journal.Journal
	id atomic.Pointer[core.RunID]
}

func (j *removedRun) History(ctx context.Context, id core.RunID) (journal.History, error) {
	if gone := j.id.Load(); gone != nil && *gone == id {
		return journal.History{}, journal.ErrNotFound
	}
	return j.Journal.History(ctx, id)
}

// TestRemovedWhileItIsRead checks that a run is not there if its beginning was removed while memory still has its end.
func TestRemovedWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &removedRun{Journal: memory.New()}
		e, _ := open(t, j, -1, succeed)
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("f", nap(time.Hour), nap(time.Hour)))
		<-time.After(time.Hour)
		synctest.Wait()
		all, err := e.Entries(t.Context(), id, 0)
		if err != nil || len(all) < 2 {
			t.Fatalf("%d entries, %v", len(all), err)
		}
		j.id.Store(&id)
		if some, err := e.Entries(t.Context(), id, 0); !errors.Is(err, ErrNotFound) {
			t.Errorf("%d entries of %d, %v", len(some), len(all), err)
		}
	})
}
