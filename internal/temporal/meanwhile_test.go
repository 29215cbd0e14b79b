package temporal

import (
	"context"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// TestChainGoesOnMeanwhile describes and signals a workflow id while its chain goes on: it always means the newest run.
func TestChainGoesOnMeanwhile(t *testing.T) {
	bubble(t, func(b *bed) {
		_ = b.start(options{})
		ctx, stop := context.WithCancel(b.Context())
		defer stop()
		x := &commonpb.WorkflowExecution{WorkflowId: b.id}
		try := func(name string, do func() (ok bool, err error)) {
			go func() {
				for ctx.Err() == nil {
					if ok, err := do(); (err != nil || !ok) && ctx.Err() == nil {
						t.Errorf("%s: %v, %v", name, ok, err)
						return
					}
				}
			}()
		}
		try("describe", func() (bool, error) {
			out, err := b.server.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
				Namespace: Namespace, Execution: x,
			})
			return out.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, err
		})
		try("signal", func() (bool, error) {
			_, err := b.server.SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
				Namespace: Namespace, WorkflowExecution: x, SignalName: "go",
			})
			return true, err
		})
		for range 300 {
			b.takeTask(options{})
			_ = b.answer([]string{"new"})
			b.next()
		}
	})
}
