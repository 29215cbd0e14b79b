package temporal

import (
	"slices"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
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
