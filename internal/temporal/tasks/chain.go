package tasks

import (
	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
)

// continueRun ends the run, and begins the next one of its chain with another input. What the command does not say is
// as it was.
func (d *deciding) continueRun(a *commandpb.ContinueAsNewWorkflowExecutionCommandAttributes) *badCommand {
	const cause = enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_CONTINUE_AS_NEW_ATTRIBUTES
	next := proto.Clone(d.fold.Start()).(*workflowservice.StartWorkflowExecutionRequest)
	next.Input, next.Header, next.CronSchedule, next.RequestId = a.Input, a.Header, a.CronSchedule, ""
	next.WorkflowStartDelay, next.ContinuedFailure = a.BackoffStartInterval, a.Failure
	next.RetryPolicy = nil
	if a.RetryPolicy != nil {
		next.RetryPolicy = convert.FillRetry(a.RetryPolicy)
	}
	if a.LastCompletionResult != nil {
		next.LastCompletionResult = a.LastCompletionResult
	}
	next.Memo, next.SearchAttributes = d.fold.Memo(), d.fold.Search()
	if a.Memo != nil {
		next.Memo = a.Memo
	}
	if a.SearchAttributes != nil {
		next.SearchAttributes = a.SearchAttributes
	}
	if a.GetWorkflowType().GetName() != "" {
		next.WorkflowType = a.WorkflowType
	}
	if a.GetTaskQueue().GetName() != "" {
		next.TaskQueue = a.TaskQueue
	}
	if a.WorkflowTaskTimeout.AsDuration() != 0 {
		next.WorkflowTaskTimeout = a.WorkflowTaskTimeout
	}
	if a.WorkflowRunTimeout.AsDuration() != 0 {
		next.WorkflowRunTimeout = a.WorkflowRunTimeout
	}
	_, err := convert.Rules(next)
	if err != nil {
		return bad(cause, "%v", err)
	}
	input, err := proto.Marshal(next)
	if err != nil {
		return bad(cause, "%v", err)
	}
	return d.close(core.Close{Phase: core.RunContinued, Output: input})
}
