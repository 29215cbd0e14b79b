package temporal

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

const (
	// removeReason and removeActor tell why a run was terminated that is removed.
	removeReason = "Delete workflow execution"
	removeActor  = "history-service"
)

// DeleteWorkflowExecution removes a run with its history. An open one is terminated first. It returns when the run is
// gone.
func (s *Frontend) DeleteWorkflowExecution(
	ctx context.Context, q *workflowservice.DeleteWorkflowExecutionRequest,
) (*workflowservice.DeleteWorkflowExecutionResponse, error) {
	r, err := s.use(ctx, q.WorkflowExecution)
	if err != nil {
		return nil, err
	}
	id, name, open := r.Fold.Run, r.Fold.WorkflowID, r.Fold.Closed == 0
	r.Release()
	if open {
		err = s.engine.Input(ctx, id, core.Operation{
			Op: core.OpTerminate, Step: core.NoStep, Actor: actor(ctx, removeActor), Reason: removeReason,
		}, true)
		if err != nil && api.CodeOf(err) != api.CodeRunClosed {
			return nil, err
		}
	}
	err = s.engine.Remove(ctx, id)
	if absent(err) { // another caller has removed it meanwhile
		err = noRun(name)
	}
	if err == nil {
		s.tasks.Remove(id)
	}
	return &workflowservice.DeleteWorkflowExecutionResponse{}, err
}
