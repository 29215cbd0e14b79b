package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/temporal"
)

func init() {
	rows["W10"] = gatewayUpdates
	rows["W11"] = gatewayResets
}

// updated asks for an update, lets a worker answer its task with some messages, and returns how far it has come.
func (g *gateway) updated(id string, says ...proto.Message) string {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), 30*time.Second)
	defer cancel()
	heard := make(chan string, 1)
	go func() {
		out, err := g.front.UpdateWorkflowExecution(ctx, &workflowservice.UpdateWorkflowExecutionRequest{
			WorkflowExecution: g.run, Request: &updatepb.Request{
				Meta: &updatepb.Meta{UpdateId: id}, Input: &updatepb.Input{Name: "change"},
			},
		})
		if err != nil {
			heard <- err.Error()
			return
		}
		heard <- out.Stage.String() + " " + out.Outcome.GetFailure().GetMessage()
	}()
	if says != nil {
		g.says(ctx, id, says)
	}
	return strings.TrimSpace(<-heard)
}

func (g *gateway) says(ctx context.Context, id string, says []proto.Message) {
	g.Helper()
	task, err := g.front.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: temporal.Namespace, TaskQueue: gatewayQueue,
	})
	if err != nil {
		g.Fatal(err)
	}
	q := &workflowservice.RespondWorkflowTaskCompletedRequest{TaskToken: task.TaskToken}
	for i, m := range says {
		body, err := anypb.New(m)
		if err != nil {
			g.Fatal(err)
		}
		q.Messages = append(q.Messages, &protocolpb.Message{
			Id: id + string(rune('a'+i)), ProtocolInstanceId: id, Body: body,
		})
	}
	if _, err := g.front.RespondWorkflowTaskCompleted(ctx, q); err != nil {
		g.Fatal(err)
	}
}

// count returns how many events of a type the history has.
func (g *gateway) count(kind enumspb.EventType) int {
	g.Helper()
	n := 0
	for _, e := range g.events() {
		if e.EventType == kind {
			n++
		}
	}
	return n
}

// gatewayUpdates shows what becomes of updates: what is rejected leaves no trace, what is accepted is told once.
func gatewayUpdates(t *testing.T) {
	onGateway(t, &workflowservice.StartWorkflowExecutionRequest{},
		&commandpb.ScheduleActivityTaskCommandAttributes{StartToCloseTimeout: durationpb.New(time.Hour)}, "take",
		func(g *gateway) {
			before := len(g.events())
			if got := g.updated("no", &updatepb.Rejection{Failure: gatewayFailure("fail", "Invalid")}); got !=
				"Completed no" {
				g.Errorf("a rejected update: %s", got)
			}
			if n := len(g.events()); n != before {
				g.Errorf("a rejected update leaves %d events", n-before)
			}
			done := &updatepb.Response{
				Meta: &updatepb.Meta{UpdateId: "yes"}, Outcome: &updatepb.Outcome{Value: &updatepb.Outcome_Success{}},
			}
			for i, says := range [][]proto.Message{{&updatepb.Acceptance{}, done}, nil} {
				if got := g.updated("yes", says...); got != "Completed" {
					g.Errorf("an accepted update, asked for %d times: %s", i+1, got)
				}
			}
			accepted := g.count(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)
			completed := g.count(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED)
			if accepted != 1 || completed != 1 {
				g.Errorf("it was accepted %d times, and has %d outcomes", accepted, completed)
			}
			if got := g.updated("silent", []proto.Message{}...); !strings.Contains(got, "wasn't processed") {
				g.Errorf("an update of which the worker says nothing: %s", got)
			}
		})
}

// gatewayResets shows what a reset keeps, ends and applies again.
func gatewayResets(t *testing.T) {
	onGateway(t, &workflowservice.StartWorkflowExecutionRequest{},
		&commandpb.ScheduleActivityTaskCommandAttributes{ScheduleToCloseTimeout: durationpb.New(time.Minute)}, "take",
		func(g *gateway) {
			_, err := g.front.SignalWorkflowExecution(g.Context(), &workflowservice.SignalWorkflowExecutionRequest{
				WorkflowExecution: g.run, SignalName: "go",
			})
			if err != nil {
				g.Fatal(err)
			}
			g.answer()
			g.act("50s")
			base := g.run.RunId
			out, err := g.front.ResetWorkflowExecution(g.Context(), &workflowservice.ResetWorkflowExecutionRequest{
				WorkflowExecution: g.run, WorkflowTaskFinishEventId: int64(len(g.events())), Reason: "again",
			})
			if err != nil {
				g.Fatal(err)
			}
			if kind := g.last().EventType; kind != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED {
				g.Errorf("the run that was open has ended with %s", kind)
			}
			first := g.events()
			g.run.RunId = out.RunId
			second := g.events()
			for i := range 7 {
				if !proto.Equal(first[i], second[i]) {
					g.Errorf("event %d is another one in the new run: %s", i+1, second[i])
				}
			}
			if a := second[0].GetWorkflowExecutionStartedEventAttributes(); a.OriginalExecutionRunId != base {
				g.Errorf("the new run comes from %s", a.OriginalExecutionRunId)
			}
			i := slices.IndexFunc(second, func(e *historypb.HistoryEvent) bool {
				return e.GetWorkflowTaskFailedEventAttributes().GetCause() ==
					enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
			})
			if i < 0 || second[i].GetWorkflowTaskFailedEventAttributes().NewRunId != out.RunId {
				g.Errorf("the task that is made again is told as %s", second[max(i, 0)])
			}
			g.act("50s") // the activity has its whole time again
			g.act("take")
			if g.tried != 1 {
				g.Errorf("the activity is made again in attempt %d", g.tried)
			}
		})
}
