package temporal

import (
	"slices"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// TestResetAgain resets a run that came of a reset. Each reset names the run that came of it: workers derive ids from
// that.
func TestResetAgain(t *testing.T) {
	bubble(t, func(b *bed) {
		_ = b.start(options{})
		runs := []string{b.run}
		for range 2 {
			b.takeTask(options{})
			b.answer([]string{"timer", "t", "1h"})
			events := b.history()
			out, err := b.server.ResetWorkflowExecution(b.Context(), &workflowservice.ResetWorkflowExecutionRequest{
				WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: b.id, RunId: b.run},
				WorkflowTaskFinishEventId: events[len(events)-2].EventId,
			})
			if err != nil {
				t.Fatal(err)
			}
			b.run, b.known = out.RunId, nil
			runs = append(runs, out.RunId)
		}
		var told []string
		for _, e := range b.history() {
			if a := e.GetWorkflowTaskFailedEventAttributes(); a != nil {
				told = append(told, a.BaseRunId, a.NewRunId)
			}
		}
		if want := []string{runs[0], runs[1], runs[1], runs[2]}; !slices.Equal(told, want) {
			t.Errorf("the resets are from and to %v, and not %v", told, want)
		}
	})
}

// TestResetToOpenSend refuses to reset a run that has ended to where a send was open whose answer nobody has heard. The
// answer of one that was open when its run was replaced comes to the run that goes on.
func TestResetToOpenSend(t *testing.T) {
	id := core.NewRunID(1, 0, 0, 1)
	entries := func(kind core.StepKind, more ...core.Record) []core.Entry {
		begun := core.StepBegan{Spec: &core.StepSpec{Name: "to-kid", Kind: kind}}
		return []core.Entry{
			{Records: []core.Record{core.RunCreated{}, begun}},
			{Records: more},
			{Records: []core.Record{core.RunEnded{Phase: core.RunSucceeded}}},
		}
	}
	const lost, child = "before it was known whether a signal", "pending child workflows"
	for name, c := range map[string]struct {
		open    core.RunID
		entries []core.Entry
		want    string
	}{
		"lost":       {entries: entries(core.KindSend), want: lost},
		"answered":   {entries: entries(core.KindSend, core.StepEnded{Phase: core.StepSucceeded})},
		"open":       {entries: entries(core.KindSend), open: id},
		"child":      {entries: entries(core.KindChild), want: child},
		"child open": {entries: entries(core.KindChild), open: id},
		"task":       {entries: entries(core.KindTask)},
	} {
		b := &Base{id: id, start: &workflowservice.StartWorkflowExecutionRequest{}, turn: history.Turn{Seen: 1}}
		err := b.Fork(&engine.ForkRequest{Open: c.open}, c.entries, &workflowservice.ResetWorkflowExecutionRequest{})
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
