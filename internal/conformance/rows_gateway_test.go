package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/temporal"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	rows["W1"] = gatewayTimeouts
	rows["W2"] = gatewayFailures
	rows["W3"] = gatewayExpired
	rows["W4"] = gatewayNoTimeLeft
	rows["W5"] = gatewayCancel
	rows["W6"] = gatewayRuns
}

// gateway is an engine that speaks Temporal's protocol, with one workflow of one activity. Time goes by when all wait.
type gateway struct {
	*testing.T
	front workflowservice.WorkflowServiceServer
	run   *commonpb.WorkflowExecution
	token []byte // the token of the attempt at hand
	tried int32  // its number
}

// onGateway starts a workflow with one activity, and plays a trace of what becomes of it.
func onGateway(
	t *testing.T, start *workflowservice.StartWorkflowExecutionRequest,
	activity *commandpb.ScheduleActivityTaskCommandAttributes, trace string, check func(g *gateway),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		now := func() core.Time { return policy.At(time.Now()) }
		plugin := temporal.New(temporal.Settings{Clock: worker.Clock{Now: now}})
		e, err := engine.New(engine.Config{Journal: memory.NewPartitions(3), Kinds: plugin.Kinds(nil, nil), Now: now})
		if err == nil {
			err = plugin.Open(e)
		}
		if err == nil {
			err = e.Open(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		front := plugin.Frontend()
		defer func() {
			front.Drain()
			_ = e.Close() // an error says that something was not saved
			plugin.Close()
			synctest.Wait()
		}()
		g := &gateway{T: t, front: front}
		g.start(start)
		if activity != nil {
			activity.ActivityId, activity.ActivityType = "a", &commonpb.ActivityType{Name: "Act"}
			g.answer(&commandpb.Command{
				CommandType: enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
				Attributes: &commandpb.Command_ScheduleActivityTaskCommandAttributes{
					ScheduleActivityTaskCommandAttributes: activity,
				},
			})
		}
		for _, word := range strings.Fields(trace) {
			g.act(word)
			synctest.Wait()
		}
		check(g)
	})
}

var gatewayQueue = &taskqueuepb.TaskQueue{Name: "q"}

func (g *gateway) start(q *workflowservice.StartWorkflowExecutionRequest) {
	g.Helper()
	q.Namespace, q.WorkflowId, q.TaskQueue = temporal.Namespace, "w", gatewayQueue
	q.WorkflowType = &commonpb.WorkflowType{Name: "W"}
	out, err := g.front.StartWorkflowExecution(g.Context(), q)
	if err != nil {
		g.Fatal(err)
	}
	g.run = &commonpb.WorkflowExecution{WorkflowId: "w", RunId: out.RunId}
}

// answer takes a workflow task and answers it.
func (g *gateway) answer(c ...*commandpb.Command) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), 2*time.Second)
	defer cancel()
	task, err := g.front.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: temporal.Namespace, TaskQueue: gatewayQueue,
	})
	if err == nil {
		_, err = g.front.RespondWorkflowTaskCompleted(ctx, &workflowservice.RespondWorkflowTaskCompletedRequest{
			TaskToken: task.TaskToken, Commands: c,
		})
	}
	if err != nil {
		g.Fatal(err)
	}
}

// act does one thing: take an attempt, end it, tell that it lives, ask the activity to cancel, fail the workflow, or
// let time go by. Behind a colon stands the type of a failure, or in how long the next attempt is wanted.
func (g *gateway) act(word string) {
	g.Helper()
	var err error
	what, more, _ := strings.Cut(word, ":")
	switch what {
	case "take":
		g.take()
	case "done":
		_, err = g.front.RespondActivityTaskCompleted(g.Context(),
			&workflowservice.RespondActivityTaskCompletedRequest{TaskToken: g.token})
	case "fail", "never", "in":
		_, err = g.front.RespondActivityTaskFailed(g.Context(), &workflowservice.RespondActivityTaskFailedRequest{
			TaskToken: g.token, Failure: gatewayFailure(what, more),
		})
	case "beat":
		_, err = g.front.RecordActivityTaskHeartbeat(g.Context(),
			&workflowservice.RecordActivityTaskHeartbeatRequest{TaskToken: g.token})
	case "cancelled":
		_, err = g.front.RespondActivityTaskCanceled(g.Context(),
			&workflowservice.RespondActivityTaskCanceledRequest{TaskToken: g.token})
	case "ask":
		_, err = g.front.SignalWorkflowExecution(g.Context(), &workflowservice.SignalWorkflowExecutionRequest{
			WorkflowExecution: g.run, SignalName: "cancel it",
		})
		g.answer(&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK,
			Attributes: &commandpb.Command_RequestCancelActivityTaskCommandAttributes{
				RequestCancelActivityTaskCommandAttributes: &commandpb.RequestCancelActivityTaskCommandAttributes{
					ScheduledEventId: 5,
				},
			},
		})
	case "run-fails", "run-never":
		g.answer(&commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
			Attributes: &commandpb.Command_FailWorkflowExecutionCommandAttributes{
				FailWorkflowExecutionCommandAttributes: &commandpb.FailWorkflowExecutionCommandAttributes{
					Failure: gatewayFailure(strings.TrimPrefix(what, "run-"), more),
				},
			},
		})
	default:
		<-time.After(long(g.T, word))
	}
	if err != nil {
		g.Fatalf("%s: %v", word, err)
	}
}

// take waits for an attempt for at most a second.
func (g *gateway) take() {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), 1100*time.Millisecond)
	defer cancel()
	t, err := g.front.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{TaskQueue: gatewayQueue})
	if err != nil || len(t.TaskToken) == 0 {
		g.Fatalf("there is no attempt: %v", err)
	}
	g.token, g.tried = t.TaskToken, t.Attempt
}

func long(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// lasting returns a duration as the protocol has it; nil: the text is empty.
func lasting(t *testing.T, text string) *durationpb.Duration {
	t.Helper()
	if text == "" {
		return nil
	}
	return durationpb.New(long(t, text))
}

func gatewayFailure(what, more string) *failurepb.Failure {
	info := &failurepb.ApplicationFailureInfo{NonRetryable: what == "never"}
	if what == "in" {
		d, _ := time.ParseDuration(more)
		info.NextRetryDelay = durationpb.New(d)
	} else {
		info.Type = more
	}
	return &failurepb.Failure{
		Message: "no", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: info},
	}
}

// last returns what the history tells last that is about the activity, or about the end of the run.
func (g *gateway) last() *historypb.HistoryEvent {
	g.Helper()
	events := g.events()
	for i := len(events) - 1; i >= 0; i-- {
		switch events[i].EventType {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED, enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED,
			enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		default:
			return events[i]
		}
	}
	return nil
}

func (g *gateway) events() []*historypb.HistoryEvent {
	g.Helper()
	out, err := g.front.GetWorkflowExecutionHistory(g.Context(), &workflowservice.GetWorkflowExecutionHistoryRequest{
		Execution: g.run,
	})
	if err != nil {
		g.Fatal(err)
	}
	return out.History.Events
}

// ending tells how the activity or the run has ended: the event, the limit, why nothing follows, and what came before.
func (g *gateway) ending() string {
	g.Helper()
	e := g.last()
	out := e.EventType.String()
	var failure *failurepb.Failure
	state := enumspb.RETRY_STATE_UNSPECIFIED
	switch {
	case e.GetActivityTaskFailedEventAttributes() != nil:
		a := e.GetActivityTaskFailedEventAttributes()
		failure, state = a.Failure, a.RetryState
	case e.GetActivityTaskTimedOutEventAttributes() != nil:
		a := e.GetActivityTaskTimedOutEventAttributes()
		failure, state = a.Failure, a.RetryState
	case e.GetWorkflowExecutionFailedEventAttributes() != nil:
		state = e.GetWorkflowExecutionFailedEventAttributes().RetryState
	case e.GetWorkflowExecutionTimedOutEventAttributes() != nil:
		state = e.GetWorkflowExecutionTimedOutEventAttributes().RetryState
	}
	if limit := failure.GetTimeoutFailureInfo(); limit != nil {
		out += " " + limit.TimeoutType.String()
	}
	if state != enumspb.RETRY_STATE_UNSPECIFIED {
		out += " " + state.String()
	}
	if cause := failure.GetCause(); cause != nil {
		out += " after " + cause.GetTimeoutFailureInfo().GetTimeoutType().String() +
			cause.GetApplicationFailureInfo().GetType()
	}
	return fmt.Sprintf("%s, attempt %d", out, g.tried)
}
