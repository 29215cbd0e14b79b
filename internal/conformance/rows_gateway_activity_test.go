package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// fate is a trace of what becomes of an activity, and how it ends.
type fate struct {
	options string // the activity's, as option reads them
	trace   string
	want    string
}

// option reads the options of an activity: attempt, whole, wait and beat are its limits; retry, never, first and most
// its retry policy.
func option(t *testing.T, words string) *commandpb.ScheduleActivityTaskCommandAttributes {
	t.Helper()
	o := map[string]string{}
	for _, w := range strings.Fields(words) {
		key, value, _ := strings.Cut(w, "=")
		o[key] = value
	}
	retry := &commonpb.RetryPolicy{
		InitialInterval: lasting(t, o["first"]), MaximumInterval: lasting(t, o["most"]),
		NonRetryableErrorTypes: strings.Split(o["never"], ","),
	}
	_, _ = fmt.Sscan(o["retry"], &retry.MaximumAttempts) // none: any number
	if o["never"] == "" {
		retry.NonRetryableErrorTypes = nil
	}
	return &commandpb.ScheduleActivityTaskCommandAttributes{
		ScheduleToCloseTimeout: lasting(t, o["whole"]), ScheduleToStartTimeout: lasting(t, o["wait"]),
		StartToCloseTimeout: lasting(t, o["attempt"]), HeartbeatTimeout: lasting(t, o["beat"]), RetryPolicy: retry,
	}
}

// play plays traces of activities.
func play(t *testing.T, fates []fate) {
	for _, f := range fates {
		t.Run(f.options+" "+f.trace, func(t *testing.T) {
			start := &workflowservice.StartWorkflowExecutionRequest{}
			onGateway(t, start, option(t, f.options), f.trace, func(g *gateway) {
				if got := g.ending(); got != f.want {
					g.Errorf("%s, want %s", got, f.want)
				}
			})
		})
	}
}

// gatewayTimeouts checks how the timeouts of an activity are filled in, and cut to those around them.
func gatewayTimeouts(t *testing.T) {
	for _, c := range []struct{ run, options, want string }{
		{"", "whole=10s", "whole 10s, wait 10s, attempt 10s, beat 0s"},
		{"", "whole=10s wait=20s attempt=30s", "whole 10s, wait 10s, attempt 10s, beat 0s"},
		{"", "whole=10s wait=2s attempt=3s beat=1s", "whole 10s, wait 2s, attempt 3s, beat 1s"},
		{"", "attempt=5s beat=9s", "whole 0s, wait 0s, attempt 5s, beat 5s"},
		{"1m", "attempt=5s", "whole 1m0s, wait 1m0s, attempt 5s, beat 0s"},
		{"1m", "attempt=5s wait=7s", "whole 1m0s, wait 7s, attempt 5s, beat 0s"},
		{"1m", "whole=1h", "whole 1m0s, wait 1m0s, attempt 1m0s, beat 0s"},
		{"1m", "attempt=1h beat=1h wait=1h", "whole 1m0s, wait 1m0s, attempt 1m0s, beat 1m0s"},
	} {
		t.Run(c.run+" "+c.options, func(t *testing.T) {
			start := &workflowservice.StartWorkflowExecutionRequest{WorkflowRunTimeout: lasting(t, c.run)}
			onGateway(t, start, option(t, c.options), "take", func(g *gateway) {
				a := g.last().GetActivityTaskScheduledEventAttributes()
				got := fmt.Sprintf("whole %v, wait %v, attempt %v, beat %v",
					span(a.GetScheduleToCloseTimeout()), span(a.GetScheduleToStartTimeout()),
					span(a.GetStartToCloseTimeout()), span(a.GetHeartbeatTimeout()))
				if got != c.want {
					g.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
	play(t, []fate{
		{"whole=2s", "3s", "ActivityTaskTimedOut ScheduleToStart Timeout, attempt 0"},
		{
			"attempt=5s beat=9s retry=1", "take 5s",
			"ActivityTaskTimedOut StartToClose MaximumAttemptsReached, attempt 1",
		},
	})
}

func span(d *durationpb.Duration) time.Duration { return d.AsDuration() }

// gatewayFailures checks which failures are tried again, and what is told where none is.
func gatewayFailures(t *testing.T) {
	play(t, []fate{
		{"attempt=5s", "take done", "ActivityTaskCompleted, attempt 1"},
		{"attempt=5s retry=1", "take fail", "ActivityTaskFailed MaximumAttemptsReached, attempt 1"},
		{
			"attempt=5s retry=3", "take fail 1s take fail 2s take fail",
			"ActivityTaskFailed MaximumAttemptsReached, attempt 3",
		},
		{"attempt=5s retry=3", "take fail 1s take done", "ActivityTaskCompleted, attempt 2"},
		{"attempt=5s", "take never", "ActivityTaskFailed NonRetryableFailure, attempt 1"},
		{"attempt=5s never=Odd", "take fail:Odd", "ActivityTaskFailed NonRetryableFailure, attempt 1"},
		{
			"attempt=5s never=Odd", "take fail:Even 1s take fail:Odd",
			"ActivityTaskFailed NonRetryableFailure, attempt 2",
		},
		{"attempt=5s most=2s", "take in:10s 10s take never", "ActivityTaskFailed NonRetryableFailure, attempt 2"},
		{"attempt=5s first=10ms", "take fail 10ms take done", "ActivityTaskCompleted, attempt 2"},
	})
}

// gatewayExpired checks which limits are tried again when they expire, and what is told where none is.
func gatewayExpired(t *testing.T) {
	play(t, []fate{
		{"attempt=1s retry=1", "take 1s", "ActivityTaskTimedOut StartToClose MaximumAttemptsReached, attempt 1"},
		{
			"attempt=1s retry=2", "take 2s take 1s",
			"ActivityTaskTimedOut StartToClose MaximumAttemptsReached after StartToClose, attempt 2",
		},
		{
			"attempt=1s retry=2", "take fail:Odd 1s take 1s",
			"ActivityTaskTimedOut StartToClose MaximumAttemptsReached after UnspecifiedOdd, attempt 2",
		},
		{
			"attempt=9s beat=1s retry=1", "take 600ms beat 600ms beat 1s",
			"ActivityTaskTimedOut Heartbeat MaximumAttemptsReached, attempt 1",
		},
		{
			"attempt=1s never=TemporalTimeout:StartToClose", "take 1s",
			"ActivityTaskTimedOut StartToClose NonRetryableFailure, attempt 1",
		},
		{
			"attempt=9s beat=1s never=TemporalTimeout:Heartbeat", "take 1s",
			"ActivityTaskTimedOut Heartbeat NonRetryableFailure, attempt 1",
		},
		{"attempt=5s wait=2s retry=9", "2s", "ActivityTaskTimedOut ScheduleToStart Timeout, attempt 0"},
		{"attempt=9s whole=3s beat=9s", "take 3s", "ActivityTaskTimedOut ScheduleToClose Timeout, attempt 1"},
	})
}

// gatewayNoTimeLeft checks what is told where the next attempt would come after schedule-to-close: the failure of the
// last one, or that there is not enough time, with the limit that has expired as the cause.
func gatewayNoTimeLeft(t *testing.T) {
	play(t, []fate{
		{"attempt=5s whole=3s first=2s", "take fail 2s take fail", "ActivityTaskFailed Timeout, attempt 2"},
		{"attempt=5s whole=9s", "take in:1m", "ActivityTaskFailed Timeout, attempt 1"},
		{
			"attempt=2s whole=4s first=3s", "take 2s",
			"ActivityTaskTimedOut ScheduleToClose Timeout after StartToClose, attempt 1",
		},
	})
}

// gatewayCancel checks what becomes of an activity that was asked to cancel: no attempt follows.
func gatewayCancel(t *testing.T) {
	play(t, []fate{
		{"attempt=1m", "ask", "ActivityTaskCanceled, attempt 0"},
		{"attempt=1m", "take ask beat cancelled", "ActivityTaskCanceled, attempt 1"},
		{"attempt=1m", "take ask fail", "ActivityTaskFailed CancelRequested, attempt 1"},
		{"attempt=1m", "take ask done", "ActivityTaskCompleted, attempt 1"},
		{"attempt=1m", "take fail ask", "ActivityTaskCanceled, attempt 1"},
	})
}

// gatewayRuns checks which runs are followed by another one, and what is told where none is.
func gatewayRuns(t *testing.T) {
	single := &commonpb.RetryPolicy{MaximumAttempts: 1}
	twice := &commonpb.RetryPolicy{MaximumAttempts: 2, NonRetryableErrorTypes: []string{"Odd"}}
	for _, c := range []struct {
		retry                       *commonpb.RetryPolicy
		run, execution, trace, want string
	}{
		{nil, "", "", "run-fails", "WorkflowExecutionFailed RetryPolicyNotSet"},
		{twice, "", "", "run-fails", "WorkflowExecutionFailed InProgress"},
		{twice, "", "", "run-never", "WorkflowExecutionFailed NonRetryableFailure"},
		{twice, "", "", "run-fails:Odd", "WorkflowExecutionFailed NonRetryableFailure"},
		{single, "", "", "run-fails", "WorkflowExecutionFailed MaximumAttemptsReached"},
		{nil, "2s", "", "2s", "WorkflowExecutionTimedOut RetryPolicyNotSet"},
		{twice, "2s", "", "2s", "WorkflowExecutionTimedOut InProgress"},
		{twice, "", "2s", "2s", "WorkflowExecutionTimedOut Timeout"},
	} {
		t.Run(c.run+" "+c.execution+" "+c.trace+" "+c.want, func(t *testing.T) {
			start := &workflowservice.StartWorkflowExecutionRequest{
				RetryPolicy: c.retry, WorkflowRunTimeout: lasting(t, c.run),
				WorkflowExecutionTimeout: lasting(t, c.execution),
			}
			onGateway(t, start, nil, c.trace, func(g *gateway) {
				if got := g.ending(); got != c.want+", attempt 0" {
					g.Errorf("%s, want %s", got, c.want)
				}
			})
		})
	}
}
