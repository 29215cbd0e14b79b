package engine

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// openOn opens an engine of plans on a journal.
func openOn(t *testing.T, j *memory.Journal) *Engine {
	t.Helper()
	e, err := New(Config{Journal: j, Kinds: plans})
	if err == nil {
		err = e.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEntriesAfter checks that who asks for the entries after those that it has gets the rest of all, wherever they
// are: in memory, in the view, or in both.
func TestEntriesAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openOn(t, memory.New())
		defer closeEngine(t, e)
		id := mustStart(t, e, flow("naps", nap(time.Second), nap(time.Second), nap(time.Minute), nap(time.Second)))
		longest := 0
		for range 5 {
			all, err := e.Entries(t.Context(), id, 0)
			if err != nil {
				t.Fatal(err)
			}
			for after := range len(all) + 2 {
				rest, err := e.Entries(t.Context(), id, after)
				if err != nil {
					t.Fatal(err)
				}
				if want := all[min(after, len(all)):]; len(rest) != len(want) ||
					len(want) > 0 && !reflect.DeepEqual(rest, want) {
					t.Errorf("of %d entries the ones after %d are %+v, not %+v", len(all), after, rest, want)
				}
			}
			longest = max(longest, len(all))
			<-time.After(time.Minute)
		}
		if longest < 5 {
			t.Errorf("the run has %d entries", longest)
		}
	})
}
