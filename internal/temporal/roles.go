package temporal

import (
	"net/http"

	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/api"
)

// Who may call a method, beside admins.
var (
	anyone      = []string{} // whoever has a token
	reads       = []string{api.RoleRead, api.RoleOperate}
	fetches     = []string{api.RoleRead, api.RoleOperate, api.RoleWorker}
	operates    = []string{api.RoleOperate}
	works       = []string{api.RoleWorker}
	administers = []string{api.RoleAdmin}
)

// allowed has the roles that may call a method. A method that is not here asks for an admin.
var allowed = map[string][]string{
	"GetSystemInfo": anyone, "GetClusterInfo": anyone, "DescribeNamespace": anyone, "ListNamespaces": anyone,

	"PollWorkflowTaskQueue": works, "RespondWorkflowTaskCompleted": works, "RespondWorkflowTaskFailed": works,
	"PollActivityTaskQueue": works, "RespondActivityTaskCompleted": works, "RespondActivityTaskFailed": works,
	"RespondActivityTaskCanceled": works, "RecordActivityTaskHeartbeat": works,
	"RespondActivityTaskCompletedById": works, "RespondActivityTaskFailedById": works,
	"RespondActivityTaskCanceledById": works, "RecordActivityTaskHeartbeatById": works,
	"RespondQueryTaskCompleted": works, "ResetStickyTaskQueue": works, "ShutdownWorker": works,
	"PollNexusTaskQueue": works, "RecordWorkerHeartbeat": works,

	"GetWorkflowExecutionHistory": fetches, "GetWorkflowExecutionHistoryReverse": reads,
	"DescribeWorkflowExecution": reads, "DescribeTaskQueue": reads, "ListTaskQueuePartitions": reads,
	"QueryWorkflow": reads, "PollWorkflowExecutionUpdate": reads, "GetSearchAttributes": reads,
	"ListSearchAttributes": reads, "ListWorkflowExecutions": reads, "ScanWorkflowExecutions": reads,
	"CountWorkflowExecutions": reads, "ListOpenWorkflowExecutions": reads, "ListClosedWorkflowExecutions": reads,

	"StartWorkflowExecution": operates, "SignalWorkflowExecution": operates, "ExecuteMultiOperation": operates,
	"SignalWithStartWorkflowExecution": operates, "RequestCancelWorkflowExecution": operates,
	"TerminateWorkflowExecution": operates, "ResetWorkflowExecution": operates, "UpdateWorkflowExecution": operates,

	"DeleteWorkflowExecution": administers, "RegisterNamespace": administers, "UpdateNamespace": administers,
	"DeprecateNamespace": administers,
}

// waiting are the methods whose requests may stay open for long.
var waiting = map[string]bool{
	"PollWorkflowTaskQueue": true, "PollActivityTaskQueue": true, "PollNexusTaskQueue": true,
	"GetWorkflowExecutionHistory": true, "QueryWorkflow": true, "UpdateWorkflowExecution": true,
	"PollWorkflowExecutionUpdate": true, "ExecuteMultiOperation": true,
}

// polledQueue returns the queue that a worker asks for tasks; nil: the request is not a poll.
func polledQueue(req any) *taskqueuepb.TaskQueue {
	switch q := req.(type) {
	case *workflowservice.PollWorkflowTaskQueueRequest:
		return q.GetTaskQueue()
	case *workflowservice.PollActivityTaskQueueRequest:
		return q.GetTaskQueue()
	case *workflowservice.PollNexusTaskQueueRequest:
		return q.GetTaskQueue()
	default:
		return nil
	}
}

// workflowOf returns the workflow id that a request is about; empty: it is about none.
func workflowOf(req any) string {
	if multi, is := req.(*workflowservice.ExecuteMultiOperationRequest); is {
		for _, one := range multi.Operations {
			if id := one.GetStartWorkflow().GetWorkflowId(); id != "" {
				return id
			}
		}
		return ""
	}
	msg, is := req.(proto.Message)
	if !is {
		return ""
	}
	in := msg.ProtoReflect()
	fields := in.Descriptor().Fields()
	if id := fields.ByName("workflow_id"); id != nil {
		return in.Get(id).String()
	}
	x := fields.ByName("workflow_execution")
	if x == nil || !in.Has(x) {
		return ""
	}
	name := in.Get(x).Message()
	return name.Get(name.Descriptor().Fields().ByName("workflow_id")).String()
}

// httpStatus returns the status of HTTP that means what an error says: the audit log has those.
func httpStatus(err error) int {
	if err == nil {
		return http.StatusOK
	}
	switch serviceerror.ToStatus(plain(err)).Code() {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return http.StatusConflict
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
