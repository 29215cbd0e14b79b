package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	filterpb "go.temporal.io/api/filter/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// stages are the stages that an update may be waited for.
var stages = map[string]enumspb.UpdateWorkflowExecutionLifecycleStage{
	"accepted":  enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED,
	"completed": enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED,
}

func updateRequest(id string) *updatepb.Request {
	return &updatepb.Request{
		Meta:  &updatepb.Meta{UpdateId: id, Identity: "client"},
		Input: &updatepb.Input{Name: "change", Args: values(id)},
	}
}

// actOfUpdate does what a client does with updates, resets and lists.
func (b *bed) actOfUpdate(words []string, o options) string {
	b.Helper()
	switch words[0] {
	case "update":
		b.later("update "+words[1], func(ctx context.Context) (string, error) {
			out, err := b.server.UpdateWorkflowExecution(ctx, &workflowservice.UpdateWorkflowExecutionRequest{
				Namespace: Namespace, WorkflowExecution: b.named(), Request: updateRequest(words[1]),
				WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: stages[o["until"]]},
			})
			return stageOf(out.GetStage(), out.GetOutcome()), err
		})
	case "poll-update":
		b.later("poll-update "+words[1], func(ctx context.Context) (string, error) {
			out, err := b.server.PollWorkflowExecutionUpdate(ctx, &workflowservice.PollWorkflowExecutionUpdateRequest{
				Namespace:  Namespace,
				UpdateRef:  &updatepb.UpdateRef{WorkflowExecution: b.named(), UpdateId: words[1]},
				WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: stages[o["until"]]},
			})
			return stageOf(out.GetStage(), out.GetOutcome()), err
		})
	case "update-start":
		b.updateStart(words[1], o)
	case "reset":
		return b.reset(words, o)
	case "list", "scan", "count", "open", "closed":
		return b.list(words[0], strings.Join(words[1:], " "))
	default:
		b.Fatalf("there is no action %q", words[0])
	}
	return ""
}

// list lists workflows in one of the ways that there are, page by page, with one workflow on each.
func (b *bed) list(how, query string) string {
	if how == "count" {
		out, err := b.server.CountWorkflowExecutions(b.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: Namespace, Query: query,
		})
		return refusal([]string{how}, err) + fmt.Sprintf("count: %d\n", out.GetCount())
	}
	text, token := "", []byte(nil)
	for range 10 {
		var found []*workflowpb.WorkflowExecutionInfo
		var err error
		switch how {
		case "list":
			out, e := b.server.ListWorkflowExecutions(b.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Query: query, PageSize: 1, NextPageToken: token,
			})
			found, token, err = out.GetExecutions(), out.GetNextPageToken(), e
		case "scan":
			out, e := b.server.ScanWorkflowExecutions(b.Context(), &workflowservice.ScanWorkflowExecutionsRequest{
				Query: query, PageSize: 1, NextPageToken: token,
			})
			found, token, err = out.GetExecutions(), out.GetNextPageToken(), e
		case "open":
			out, e := b.server.ListOpenWorkflowExecutions(b.Context(), openOf(query, token))
			found, token, err = out.GetExecutions(), out.GetNextPageToken(), e
		case "closed":
			out, e := b.server.ListClosedWorkflowExecutions(b.Context(), closedOf(query, token))
			found, token, err = out.GetExecutions(), out.GetNextPageToken(), e
		}
		text += refusal([]string{how}, err)
		for _, x := range found {
			text += fmt.Sprintf("%s: %s %s %s\n", how, x.Execution.WorkflowId, x.Type.Name, x.Status)
		}
		if len(token) == 0 {
			return text
		}
	}
	return text + "there is no end\n"
}

// openOf asks for the open workflows of a type.
func openOf(kind string, token []byte) *workflowservice.ListOpenWorkflowExecutionsRequest {
	q := &workflowservice.ListOpenWorkflowExecutionsRequest{
		MaximumPageSize: 1, NextPageToken: token, StartTimeFilter: &filterpb.StartTimeFilter{
			EarliestTime: timestamppb.New(time.Unix(0, 0)), LatestTime: timestamppb.New(time.Unix(1<<32, 0)),
		},
	}
	if kind != "" {
		q.Filters = &workflowservice.ListOpenWorkflowExecutionsRequest_TypeFilter{
			TypeFilter: &filterpb.WorkflowTypeFilter{Name: kind},
		}
	}
	return q
}

// closedOf asks for the workflows that have ended with a status.
func closedOf(status string, token []byte) *workflowservice.ListClosedWorkflowExecutionsRequest {
	q := &workflowservice.ListClosedWorkflowExecutionsRequest{MaximumPageSize: 1, NextPageToken: token}
	if n, err := enumspb.WorkflowExecutionStatusFromString(status); err == nil {
		q.Filters = &workflowservice.ListClosedWorkflowExecutionsRequest_StatusFilter{
			StatusFilter: &filterpb.StatusFilter{Status: n},
		}
	}
	return q
}

func stageOf(stage enumspb.UpdateWorkflowExecutionLifecycleStage, outcome *updatepb.Outcome) string {
	text := stage.String()
	switch {
	case outcome.GetFailure() != nil:
		text += " failed: " + outcome.GetFailure().Message
	case outcome != nil:
		text += " " + data(outcome.GetSuccess())
	}
	return text
}

// later asks for something whose answer comes later.
func (b *bed) later(what string, ask func(context.Context) (string, error)) {
	ctx := b.Context()
	go func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		text, err := ask(ctx)
		if err != nil {
			text = err.Error()
		}
		b.heard <- fmt.Sprintf("%s: %s\n", what, hidden(text))
	}()
	synctest.Wait()
}

// updateStart starts a workflow with an update.
func (b *bed) updateStart(id string, o options) {
	b.later("update-start "+id, func(ctx context.Context) (string, error) {
		start := &workflowservice.StartWorkflowExecutionRequest{
			Namespace: Namespace, WorkflowId: b.id, WorkflowType: &commonpb.WorkflowType{Name: "Work"},
			TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue}, Input: values("in"), Identity: "starter",
		}
		start.WorkflowIdConflictPolicy, _ = enumspb.WorkflowIdConflictPolicyFromString(o["conflict"])
		update := &workflowservice.UpdateWorkflowExecutionRequest{
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: o["id"]}, Request: updateRequest(id),
			WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: stages[o["until"]]},
		}
		out, err := b.server.ExecuteMultiOperation(ctx, &workflowservice.ExecuteMultiOperationRequest{
			Namespace: Namespace, Operations: []*workflowservice.ExecuteMultiOperationRequest_Operation{
				{Operation: &workflowservice.ExecuteMultiOperationRequest_Operation_StartWorkflow{
					StartWorkflow: start,
				}},
				{Operation: &workflowservice.ExecuteMultiOperationRequest_Operation_UpdateWorkflow{
					UpdateWorkflow: update,
				}},
			},
		})
		var failed *serviceerror.MultiOperationExecution
		if errors.As(err, &failed) {
			return fmt.Sprintf("start: %v; update: %v", failed.OperationErrors()[0], failed.OperationErrors()[1]), nil
		}
		if err != nil {
			return "", err
		}
		updated := out.Responses[1].GetUpdateWorkflow()
		return fmt.Sprintf("started: %t, %s", out.Responses[0].GetStartWorkflow().Started,
			stageOf(updated.Stage, updated.Outcome)), nil
	})
}

// reset resets the run, and looks at the new one.
func (b *bed) reset(words []string, o options) string {
	q := &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: b.named(), Reason: "wrong", Identity: "client",
		RequestId: o["request"],
	}
	_, _ = fmt.Sscan(words[1], &q.WorkflowTaskFinishEventId)
	for _, x := range strings.Split(o["without"], ",") {
		if n := enumspb.ResetReapplyExcludeType_value[x]; n != 0 {
			q.ResetReapplyExcludeTypes = append(q.ResetReapplyExcludeTypes, enumspb.ResetReapplyExcludeType(n))
		}
	}
	out, err := b.server.ResetWorkflowExecution(b.Context(), q)
	if err != nil {
		return refusal(words, err)
	}
	told := b.grown() + "-- the new run:\n"
	b.run, b.known = out.RunId, nil
	return told
}

// says adds what a worker says of an update to its answer, and reports whether the words are about one.
func (b *bed) says(q *workflowservice.RespondWorkflowTaskCompletedRequest, words []string) bool {
	var body proto.Message
	switch words[0] {
	case "accept":
		a := &updatepb.Acceptance{AcceptedRequestMessageId: words[1] + "/request"}
		for _, m := range b.task.GetMessages() {
			if m.ProtocolInstanceId == words[1] {
				a.AcceptedRequestSequencingEventId = m.GetEventId()
			}
		}
		if len(words) > 2 {
			a.AcceptedRequest = updateRequest(words[1])
		}
		body = a
	case "respond":
		body = &updatepb.Response{
			Meta:    &updatepb.Meta{UpdateId: words[1], Identity: "client"},
			Outcome: &updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: values("changed")}},
		}
	case "reject":
		body = &updatepb.Rejection{Failure: failure("Invalid")}
	default:
		return false
	}
	packed, err := anypb.New(body)
	if err != nil {
		b.Fatal(err)
	}
	m := &protocolpb.Message{Id: words[1] + "/" + words[0], ProtocolInstanceId: words[1], Body: packed}
	q.Messages = append(q.Messages, m)
	if words[0] != "reject" {
		q.Commands = append(q.Commands, &commandpb.Command{
			CommandType: enumspb.COMMAND_TYPE_PROTOCOL_MESSAGE,
			Attributes: &commandpb.Command_ProtocolMessageCommandAttributes{
				ProtocolMessageCommandAttributes: &commandpb.ProtocolMessageCommandAttributes{MessageId: m.Id},
			},
		})
	}
	return true
}

// replied tells what came with the reply to an answer.
func (b *bed) replied(out *workflowservice.RespondWorkflowTaskCompletedResponse) string {
	text := ""
	if n := out.GetResetHistoryEventId(); n != 0 {
		text += fmt.Sprintf("reply: back to event %d\n", n)
	}
	for _, t := range out.GetActivityTasks() {
		b.acts[t.ActivityId] = t.TaskToken
		text += fmt.Sprintf("reply: the activity %s\n", t.ActivityId)
	}
	if t := out.GetWorkflowTask(); t != nil {
		b.task = t
		text += fmt.Sprintf("reply: a task, events to %d\n", t.History.Events[len(t.History.Events)-1].EventId)
	}
	return text
}
