package conformance

import (
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

func init() { rows["W12"] = gatewayRemovals }

// remove removes a run.
func (g *gateway) remove(x *commonpb.WorkflowExecution) error {
	_, err := g.front.DeleteWorkflowExecution(g.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		WorkflowExecution: x,
	})
	return err
}

// gatewayRemovals checks that a run is removed with its history: one that has ended, and one that is open, which is
// terminated, so that its children learn of it. Nothing else is removed.
func gatewayRemovals(t *testing.T) {
	for _, how := range []string{"complete", "fail", "cancel", "terminate", "open", "new"} {
		t.Run(how, func(t *testing.T) {
			onGateway(t, &workflowservice.StartWorkflowExecutionRequest{}, nil, "", func(g *gateway) {
				g.answer(childCommand("child", nil))
				g.answerOn(children)
				if how != "open" {
					g.end("w", gatewayQueue, how)
				}
				err := g.remove(g.run)
				if err != nil {
					g.Fatal(err)
				}
				for range 2 {
					if _, isGone := g.remove(g.run).(*serviceerror.NotFound); !isGone {
						g.Error("the run is still there")
					}
				}
				if how == "new" {
					g.newest("w") // the next run of the chain stays
				}
				if got := g.newest("child"); got != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED.String() {
					g.Errorf("the child: %s", got)
				}
			})
		})
	}
}
