package convert

import (
	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
)

// ChildStart returns the request that starts the child workflow of a command. What the command does not say is as of
// its parent.
func ChildStart(
	a *commandpb.StartChildWorkflowExecutionCommandAttributes, parent *workflowservice.StartWorkflowExecutionRequest,
) *workflowservice.StartWorkflowExecutionRequest {
	out := &workflowservice.StartWorkflowExecutionRequest{
		WorkflowId: a.WorkflowId, WorkflowType: a.WorkflowType, TaskQueue: a.TaskQueue, Input: a.Input,
		WorkflowExecutionTimeout: a.WorkflowExecutionTimeout, WorkflowRunTimeout: a.WorkflowRunTimeout,
		WorkflowTaskTimeout: a.WorkflowTaskTimeout, CronSchedule: a.CronSchedule, Memo: a.Memo,
		SearchAttributes: a.SearchAttributes, Header: a.Header, Priority: a.Priority,
		WorkflowIdReusePolicy: a.WorkflowIdReusePolicy,
	}
	if a.RetryPolicy != nil {
		out.RetryPolicy = FillRetry(a.RetryPolicy)
	}
	if out.TaskQueue.GetName() == "" {
		out.TaskQueue = parent.GetTaskQueue()
	}
	if out.Priority == nil {
		out.Priority = parent.GetPriority()
	}
	return out
}

// CloseChild returns what becomes of a child when its parent ends.
func CloseChild(p enumspb.ParentClosePolicy) core.CloseChild {
	switch p {
	case enumspb.PARENT_CLOSE_POLICY_ABANDON:
		return core.ChildAbandon
	case enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL:
		return core.ChildCancel
	default:
		return core.ChildTerminate
	}
}

// Reuse returns what another run of a child's workflow id means.
func Reuse(p enumspb.WorkflowIdReusePolicy) core.Reuse {
	switch p {
	case enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY:
		return core.ReuseFailed
	case enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE:
		return core.ReuseNever
	case enumspb.WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING:
		return core.ReuseTerminate
	default:
		return core.ReuseAny
	}
}

// toldField is the field, unknown to the protocol, in which the request that starts a run has what the run is told
// besides: the run above it, and the one at the top.
const toldField protowire.Number = 1001

// Tell adds what a run is told to the request that starts it. Errors: a text is not UTF-8.
func Tell(
	start *workflowservice.StartWorkflowExecutionRequest, told *historypb.WorkflowExecutionStartedEventAttributes,
) error {
	raw, err := proto.Marshal(told)
	if err != nil {
		return err
	}
	out := protowire.AppendTag(start.ProtoReflect().GetUnknown(), toldField, protowire.BytesType)
	start.ProtoReflect().SetUnknown(protowire.AppendBytes(out, raw))
	return nil
}

// Told returns what a run is told besides the request that starts it. A later word replaces an earlier one.
func Told(start *workflowservice.StartWorkflowExecutionRequest) *historypb.WorkflowExecutionStartedEventAttributes {
	out := &historypb.WorkflowExecutionStartedEventAttributes{}
	for rest := start.ProtoReflect().GetUnknown(); len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			break
		}
		if number == toldField && kind == protowire.BytesType {
			raw, _ := protowire.ConsumeBytes(rest[n:])
			told := &historypb.WorkflowExecutionStartedEventAttributes{}
			if proto.Unmarshal(raw, told) == nil {
				out = told
			}
		}
		rest = rest[n+size:]
	}
	return out
}
