package temporal

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
)

// TestStickyAfterReset checks that a task that waits for the worker that has the workflow in its memory goes to another
// one, although the runs of its partition were read again meanwhile.
func TestStickyAfterReset(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer sticky own; timer t 1s", ""}, [2]string{"after 2s", ""})
		id, err := core.ParseRunID(b.run)
		if err != nil {
			b.Fatal(err)
		}
		keeper := b.server.Gateway.tasks
		keeper.Reset(0, func(run core.RunID) bool { return run == id })
		keeper.Consult(engine.News{Run: id})
		b.must(
			[2]string{"after 6s", ""},
			[2]string{"take", "task: attempt 1, events 1 to 8, the last answered one began with 3\n"},
			[2]string{"answer complete", ""},
		)
	})
}

// TestStickyAfterSleep lets a workflow sleep until its history is forgotten: its task goes to the worker that has it in
// its memory, with what is new. After a reset of the partition that worker is not known any more.
func TestStickyAfterSleep(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must(
			[2]string{"answer sticky own; timer t 1h", ""}, [2]string{"after 1h", ""},
			[2]string{"take sticky=own", "task: attempt 1, events 4 to 8, the last answered one began with 3\n"},
			[2]string{"answer sticky own; timer u 1h", ""}, [2]string{"after 30m", ""},
		)
		id, err := core.ParseRunID(b.run)
		if err != nil {
			b.Fatal(err)
		}
		b.server.Gateway.tasks.Reset(0, func(run core.RunID) bool { return run == id })
		b.must(
			[2]string{"after 30m", ""},
			[2]string{"take", "task: attempt 1, events 1 to 13, the last answered one began with 8\n"},
			[2]string{"answer complete", ""},
		)
	})
}
