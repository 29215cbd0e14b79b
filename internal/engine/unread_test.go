package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

var errBlind = errors.New("input/output error")

// blind is a journal in which some runs cannot be read a few times.
type blind struct {
	journal.Journal

	mu   sync.Mutex
	left map[core.RunID]int
}

func (j *blind) hide(id core.RunID, times int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left = map[core.RunID]int{id: times}
}

// hidden returns how often the run was looked for in vain, and may yet be.
func (j *blind) hidden(id core.RunID) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.left[id]
}

func (j *blind) History(ctx context.Context, id core.RunID) (journal.History, error) {
	j.mu.Lock()
	n := j.left[id]
	if n > 0 {
		j.left[id] = n - 1
	}
	j.mu.Unlock()
	if n > 0 {
		return journal.History{}, errBlind
	}
	return j.Journal.History(ctx, id)
}

// TestNothingIsLostOnARunThatCannotBeRead: what happens to a run that is not in memory happens once it can be read.
func TestNothingIsLostOnARunThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := flow("inner", nap(time.Hour))
		j := &blind{Journal: memory.New()}
		e, _ := open(t, j, -1, succeed, func(c *Config) {
			c.Kinds = map[string]Kind{"plan": {
				Compile: compilePlan,
				Resolve: func(core.DefinitionID, string) (journal.Definition, error) { return inner.definition(), nil },
			}}
		})
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("parent", child(payload("inner")), nap(time.Hour)))
		<-time.After(30 * time.Minute)
		if s := e.Stats(); s.Loaded != 0 {
			t.Fatalf("%d runs are in memory", s.Loaded)
		}
		j.hide(id, 3)
		<-time.After(45 * time.Minute)
		if n := j.hidden(id); n != 0 {
			t.Fatalf("the parent was looked for %d times", 3-n)
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
