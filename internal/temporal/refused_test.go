package temporal

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// TestRefusals checks requests that make no sense, each with the word that tells why.
func TestRefusals(t *testing.T) {
	bubble(t, func(b *bed) {
		_, err := b.server.DescribeNamespace(b.Context(), &workflowservice.DescribeNamespaceRequest{})
		wantRefusal(t, err, "Namespace is not set")
		_, err = b.server.SignalWithStartWorkflowExecution(b.Context(),
			&workflowservice.SignalWithStartWorkflowExecutionRequest{
				WorkflowId: b.id, WorkflowType: &commonpb.WorkflowType{Name: "Work"}, SignalName: "hello",
				TaskQueue:                &taskqueuepb.TaskQueue{Name: bedQueue},
				WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
			})
		wantRefusal(t, err, "WorkflowIdConflictPolicy FAIL")
		_, err = b.server.StartWorkflowExecution(b.Context(), &workflowservice.StartWorkflowExecutionRequest{
			WorkflowId: b.id, WorkflowType: &commonpb.WorkflowType{Name: "Work"}, CronSchedule: "never",
			TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue},
		})
		wantRefusal(t, err, "cronSchedule")
	})
}

func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, and not about %q", err, want)
	}
}

// TestLargeAnswerToAQuery checks that a worker cannot answer more than a payload may have.
func TestLargeAnswerToAQuery(t *testing.T) {
	bubble(t, func(b *bed) {
		_ = b.start(options{})
		b.takeTask(options{})
		b.answer([]string{"timer", "t", "1h"})
		why := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			_, err := b.server.QueryWorkflow(ctx, &workflowservice.QueryWorkflowRequest{
				Execution: b.named(), Query: &querypb.WorkflowQuery{QueryType: "state"},
			})
			why <- err
		}()
		synctest.Wait()
		b.takeTask(options{})
		_, err := b.server.RespondQueryTaskCompleted(b.Context(), &workflowservice.RespondQueryTaskCompletedRequest{
			TaskToken: b.task.TaskToken, CompletedType: enumspb.QUERY_RESULT_TYPE_ANSWERED,
			QueryResult: &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: bytes.Repeat([]byte("x"), 3<<20)}}},
		})
		if err != nil {
			t.Error(err)
		}
		wantRefusal(t, <-why, "Blob data size exceeds limit.")
	})
}
