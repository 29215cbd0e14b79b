package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/core"
	"github.com/pawl-dev/pawl/journal"
	"github.com/pawl-dev/pawl/journal/memory"
)

// Watching ends with the run, also where work of its stopped later and both are read at once; and not with an end that somebody
// took back.
func TestReaderWatchesToTheEnd(t *testing.T) {
	ended := []core.Record{core.RunEnded{Phase: core.RunTerminated}}
	stopped := []core.Record{core.AttemptStopped{}}
	reopened := []core.Record{core.RunReopened{}}
	for _, c := range []struct {
		name  string
		then  [][]core.Record
		still bool
	}{
		{name: "ended", then: [][]core.Record{ended}},
		{name: "stopped later", then: [][]core.Record{ended, stopped}},
		{name: "opened again", then: [][]core.Record{ended, stopped, reopened, stopped}, still: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, id := memory.New(), core.RunID{1}
				lease, err := j.Acquire(t.Context(), 0, "test")
				if err != nil {
					t.Fatal(err)
				}
				b := &journal.Batch{Epoch: lease.Epoch, Seq: 1, Entries: []core.Entry{{Run: id, Records: []core.Record{core.RunCreated{}}}}}
				for _, records := range c.then {
					b.Entries = append(b.Entries, core.Entry{Run: id, Records: records})
				}
				if err := j.Append(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n := 0
				err = reader{j}.Watch(ctx, id, func(core.Entry) error { n++; return nil })
				if (err != nil) != c.still || n != len(b.Entries) {
					t.Fatalf("%d of %d entries: %v", n, len(b.Entries), err)
				}
			})
		})
	}
}
