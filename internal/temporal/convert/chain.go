package convert

import (
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// InputAfter returns the input of the run that follows one by its retry policy or its cron schedule: that of the run,
// with the last result of the chain, and with the failure of the run.
func InputAfter(r *core.Run, phase core.RunPhase, output []byte, f *policy.Failure) []byte {
	start := &workflowservice.StartWorkflowExecutionRequest{}
	if proto.Unmarshal(r.Input, start) != nil {
		return r.Input
	}
	start.RequestId, start.WorkflowStartDelay, start.ContinuedFailure = "", nil, nil
	switch {
	case phase == core.RunSucceeded:
		start.LastCompletionResult = Payloads(output)
	case phase == core.RunTimedOut:
		start.ContinuedFailure = &failurepb.Failure{
			Message: "workflow timeout", Source: "Server", FailureInfo: &failurepb.Failure_TimeoutFailureInfo{
				TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: enumspb.TIMEOUT_TYPE_START_TO_CLOSE},
			},
		}
	default:
		start.ContinuedFailure = Failure(f)
	}
	input, err := proto.Marshal(start)
	if err != nil {
		return r.Input
	}
	return input
}
