package engine

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestStartAfterNewest checks that a start which names the newest run of its workflow id is refused if that is another
// one by now, whether it is open or has ended, in memory or in the view only, and that a refused one ends no run.
func TestStartAfterNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openOn(t, memory.New())
		defer closeEngine(t, e)
		none, long := core.RunID{}, flow("long", nap(time.Hour))
		start := func(newest core.RunID, how Conflict, refused bool) core.RunID {
			t.Helper()
			req := StartRequest{Definition: long.definition(), Newest: &newest, OnConflict: how}
			req.WorkflowID = "w"
			s, err := e.Start(t.Context(), req)
			if refused != (api.CodeOf(err) == CodeConflict) || !refused && err != nil {
				t.Errorf("after %s: %v", newest, err)
			}
			return s.Run
		}
		phase := func(id core.RunID) core.RunPhase {
			t.Helper()
			r, err := e.Inspect(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return r.Phase
		}
		a := start(none, ConflictFail, false)
		start(none, ConflictReplace, true)
		start(a, ConflictFail, true) // it is open
		<-time.After(2 * time.Hour)
		start(none, ConflictFail, true)
		b := start(a, ConflictFail, false)
		start(a, ConflictReplace, true)
		if p := phase(b); p.Closed() {
			t.Errorf("a refused start has left the open run %s", p)
		}
		c := start(b, ConflictReplace, false)
		if p := phase(b); p != core.RunTerminated {
			t.Errorf("the replaced run is %s", p)
		}
		<-time.After(24 * time.Hour) // nothing of it is in memory any more
		start(b, ConflictFail, true)
		start(none, ConflictFail, true)
		all := []core.RunID{a, b, c, start(c, ConflictFail, false)}
		for range 20 { // all in one instant
			all = append(all, start(all[len(all)-1], ConflictReplace, false))
		}
		if !slices.IsSortedFunc(all, func(x, y core.RunID) int { return bytes.Compare(x[:], y[:]) }) {
			t.Errorf("the ids are not in their order: %s", all)
		}
	})
}
