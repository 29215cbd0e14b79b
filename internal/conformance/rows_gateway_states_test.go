package conformance

import (
	"fmt"
	"testing"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/temporal"
)

func init() {
	rows["W13"] = gatewayCaps
	rows["W14"] = gatewayStates
}

// gatewayCaps checks the table of how the timeouts of an activity limit one another.
func gatewayCaps(t *testing.T) {
	for _, c := range []struct{ run, options, want string }{
		{"", "whole=10s", "10s 10s 10s 0s"},
		{"20s", "attempt=5s", "20s 20s 5s 0s"},
		{"", "whole=10s attempt=15s", "10s 10s 10s 0s"},
		{"", "whole=10s wait=20s", "10s 10s 10s 0s"},
		{"", "whole=20s attempt=10s beat=15s", "20s 20s 10s 10s"},
		{"10s", "whole=30s wait=25s attempt=20s beat=15s", "10s 10s 10s 10s"},
		{"", "", ""},
		{"20s", "", ""},
		{"", "wait=10s beat=10s", ""},
	} {
		t.Run(c.run+" "+c.options, func(t *testing.T) {
			start := &workflowservice.StartWorkflowExecutionRequest{WorkflowRunTimeout: lasting(t, c.run)}
			onGateway(t, start, nil, "", func(g *gateway) {
				a := option(t, c.options)
				a.ActivityId, a.ActivityType = "a", &commonpb.ActivityType{Name: "Act"}
				refused := g.tryActivity(a)
				if refused != (c.want == "") {
					g.Fatalf("the activity is refused: %t", refused)
				}
				if refused {
					cause := g.last().GetWorkflowTaskFailedEventAttributes().GetCause()
					if cause != enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_SCHEDULE_ACTIVITY_ATTRIBUTES {
						g.Errorf("the workflow task fails because of %s", cause)
					}
					return
				}
				got := g.last().GetActivityTaskScheduledEventAttributes()
				text := fmt.Sprint(span(got.GetScheduleToCloseTimeout()), span(got.GetScheduleToStartTimeout()),
					span(got.GetStartToCloseTimeout()), span(got.GetHeartbeatTimeout()))
				if text != c.want {
					g.Errorf("%s, want %s", text, c.want)
				}
			})
		})
	}
}

// tryActivity answers a workflow task with an activity. It reports whether that is refused.
func (g *gateway) tryActivity(a *commandpb.ScheduleActivityTaskCommandAttributes) (refused bool) {
	g.Helper()
	task, err := g.front.PollWorkflowTaskQueue(g.Context(), &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: temporal.Namespace, TaskQueue: gatewayQueue,
	})
	if err != nil {
		g.Fatal(err)
	}
	_, err = g.front.RespondWorkflowTaskCompleted(g.Context(), &workflowservice.RespondWorkflowTaskCompletedRequest{
		TaskToken: task.TaskToken, Commands: []*commandpb.Command{{
			CommandType: enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
			Attributes: &commandpb.Command_ScheduleActivityTaskCommandAttributes{
				ScheduleActivityTaskCommandAttributes: a,
			},
		}},
	})
	return err != nil
}

// gatewayStates checks the table of the ends of an activity, and of why no attempt follows.
func gatewayStates(t *testing.T) {
	play(t, []fate{
		{"attempt=1m retry=2", "take never", "ActivityTaskFailed NonRetryableFailure, attempt 1"},
		{"attempt=1m retry=1", "take fail", "ActivityTaskFailed MaximumAttemptsReached, attempt 1"},
		{"attempt=1m whole=1h first=24h", "take fail", "ActivityTaskFailed Timeout, attempt 1"},
		{"attempt=1m retry=1", "take ask fail", "ActivityTaskFailed CancelRequested, attempt 1"},
		{"attempt=1m retry=2", "take ask never", "ActivityTaskFailed CancelRequested, attempt 1"},
		{"attempt=1m whole=1h wait=5s", "5s", "ActivityTaskTimedOut ScheduleToStart Timeout, attempt 0"},
		{"attempt=1h whole=5s", "take 5s", "ActivityTaskTimedOut ScheduleToClose Timeout, attempt 1"},
		{"attempt=5s retry=1", "take 5s", "ActivityTaskTimedOut StartToClose MaximumAttemptsReached, attempt 1"},
		{
			"attempt=5s whole=1h first=24h", "take 5s",
			"ActivityTaskTimedOut ScheduleToClose Timeout after StartToClose, attempt 1",
		},
		{"attempt=5s retry=1", "take ask 5s", "ActivityTaskTimedOut StartToClose CancelRequested, attempt 1"},
		{"attempt=5s", "take ask 5s", "ActivityTaskTimedOut StartToClose CancelRequested, attempt 1"},
		{
			"attempt=1m beat=5s", "take ask 5s",
			"ActivityTaskTimedOut Heartbeat CancelRequested, attempt 1",
		},
		{"attempt=1h whole=5s", "take ask 5s", "ActivityTaskTimedOut ScheduleToClose CancelRequested, attempt 1"},
	})
}
