package temporal

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// describeQueue describes the queue of the workflow.
func (b *bed) describeQueue(kind enumspb.TaskQueueType) *workflowservice.DescribeTaskQueueResponse {
	b.Helper()
	out, err := b.server.DescribeTaskQueue(b.Context(), &workflowservice.DescribeTaskQueueRequest{
		Namespace: Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue}, TaskQueueType: kind,
		ReportStats: true, ReportPollers: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// TestDescribeTaskQueue checks what is said of a queue: the tasks that wait there with the age of the oldest, and the
// workers that asked within the last five minutes.
func TestDescribeTaskQueue(t *testing.T) {
	bubble(t, func(b *bed) {
		const workflows, acts = enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY
		b.must([2]string{"start", ""}, [2]string{"after 3s", ""})
		out := b.describeQueue(workflows)
		if out.Stats.ApproximateBacklogCount != 1 || out.Stats.ApproximateBacklogAge.AsDuration() != 3*time.Second ||
			len(out.Pollers) != 0 {
			t.Errorf("before any worker: %s", out)
		}
		b.takeTask(options{})
		b.must([2]string{"answer activity a attempt=1m", ""}, [2]string{"after 2s", ""})
		out = b.describeQueue(acts)
		if out.Stats.ApproximateBacklogCount != 1 || out.Stats.ApproximateBacklogAge.AsDuration() != 2*time.Second {
			t.Errorf("an activity waits: %s", out)
		}
		out = b.describeQueue(workflows)
		typed := out.VersionsInfo[""].TypesInfo[int32(workflows)]
		if len(out.Pollers) != 1 || out.Pollers[0].Identity == "" || out.Stats.ApproximateBacklogCount != 0 ||
			!proto.Equal(typed.Pollers[0], out.Pollers[0]) || !proto.Equal(typed.Stats, out.Stats) {
			t.Errorf("after a worker: %s", out)
		}
		b.must([2]string{"after 6m", ""})
		if out = b.describeQueue(workflows); len(out.Pollers) != 0 {
			t.Errorf("six minutes after its last poll: %s", out)
		}
	})
}

// TestShutdownWorker checks that the tasks of a worker that stops go to other workers at once: the one that waits for
// it, and those of workflows that it has in its memory.
func TestShutdownWorker(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer sticky own; timer t 1h", ""}, [2]string{"signal go", ""})
		leave := func() {
			_, err := b.server.ShutdownWorker(b.Context(), &workflowservice.ShutdownWorkerRequest{
				Namespace: Namespace, StickyTaskQueue: "own", Identity: "worker",
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		began := time.Now()
		leave()
		b.must(
			[2]string{"take", "task: attempt 1, events 1 to 8, the last answered one began with 3\n"},
			[2]string{"answer sticky own", ""}, // it had the task before it stopped
			[2]string{"signal go", ""},
			[2]string{"take", "task: attempt 1, events 1 to 12, the last answered one began with 8\n"},
		)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the tasks have waited for %s", waited)
		}
		leave() // again
		if pollers := b.describeQueue(enumspb.TASK_QUEUE_TYPE_WORKFLOW).Pollers; len(pollers) != 0 {
			t.Errorf("a worker that has stopped is shown: %s", pollers)
		}
	})
}

// TestHistoryReverse checks that a history can be read from its end, page by page.
func TestHistoryReverse(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer timer t 1h", ""}, [2]string{"signal go", ""}, [2]string{"signal go", ""})
		for _, size := range []int32{0, 1, 2, 3, 7, 1000} {
			var all []*historypb.HistoryEvent
			var next []byte
			for {
				out, err := b.server.GetWorkflowExecutionHistoryReverse(b.Context(),
					&workflowservice.GetWorkflowExecutionHistoryReverseRequest{
						Namespace: Namespace, Execution: b.named(), MaximumPageSize: size, NextPageToken: next,
					})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, out.History.Events...)
				if next = out.NextPageToken; next == nil {
					break
				}
			}
			slices.Reverse(all)
			want := b.history()
			same := slices.EqualFunc(all, want, func(a, b *historypb.HistoryEvent) bool { return proto.Equal(a, b) })
			if !same {
				t.Errorf("in pages of %d: %d events, want %d", size, len(all), len(want))
			}
		}
		_, err := b.server.GetWorkflowExecutionHistoryReverse(b.Context(),
			&workflowservice.GetWorkflowExecutionHistoryReverseRequest{
				Namespace: Namespace, Execution: b.named(), NextPageToken: []byte("x"),
			})
		if err == nil {
			t.Error("a token that nobody has made was taken")
		}
	})
}

// TestCountGroups checks that workflows are counted by their status.
func TestCountGroups(t *testing.T) {
	bubble(t, func(b *bed) {
		for _, id := range []string{"a", "b", "c"} {
			b.id = id
			b.must([2]string{"start", ""})
		}
		b.must([2]string{"terminate", ""})
		out, err := b.server.CountWorkflowExecutions(b.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: Namespace, Query: "WorkflowType = 'Work' GROUP BY ExecutionStatus",
		})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, g := range out.Groups {
			got[string(g.GroupValues[0].Data)] = g.Count
		}
		if out.Count != 3 || len(got) != 2 || got[`"Running"`] != 2 || got[`"Terminated"`] != 1 {
			t.Errorf("%s", out)
		}
		_, err = b.server.ListWorkflowExecutions(b.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: Namespace, Query: "GROUP BY ExecutionStatus",
		})
		if err == nil {
			t.Error("a list was grouped")
		}
	})
}

// TestDescribeNamespace checks what Temporal's command and its page take without looking whether it is there.
func TestDescribeNamespace(t *testing.T) {
	bubble(t, func(b *bed) {
		all, err := b.server.ListNamespaces(b.Context(), &workflowservice.ListNamespacesRequest{})
		if err != nil || len(all.Namespaces) != 1 {
			t.Fatal(all, err)
		}
		one, err := b.server.DescribeNamespace(b.Context(), &workflowservice.DescribeNamespaceRequest{
			Namespace: Namespace,
		})
		if err != nil || !proto.Equal(one, all.Namespaces[0]) {
			t.Errorf("%s, %v", one, err)
		}
		switch {
		case one.ReplicationConfig.GetActiveClusterName() == "", len(one.ReplicationConfig.GetClusters()) != 1,
			one.Config.GetHistoryArchivalState() != enumspb.ARCHIVAL_STATE_DISABLED,
			one.Config.GetVisibilityArchivalState() != enumspb.ARCHIVAL_STATE_DISABLED,
			!one.NamespaceInfo.GetCapabilities().GetSyncUpdate():
			t.Errorf("something is missing: %s", one)
		}
	})
}

// TestHealth checks the answers to probes: that the server serves, and that it does not once it drains.
func TestHealth(t *testing.T) {
	faced(t, func(f *face) {
		c := healthpb.NewHealthClient(f.conn)
		for service, want := range map[string]codes.Code{
			"": codes.OK, workflowservice.WorkflowService_ServiceDesc.ServiceName: codes.OK, "other": codes.NotFound,
		} {
			out, err := c.Check(f.Context(), &healthpb.HealthCheckRequest{Service: service})
			if status.Code(err) != want || err == nil && out.Status != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("%q: %s, %v", service, out, err)
			}
		}
		watch, err := c.Watch(f.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := watch.Recv()
		if err != nil || first.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%s, %v", first, err)
		}
		f.server.Drain()
		second, err := watch.Recv()
		if err != nil || second.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("while it drains: %s, %v", second, err)
		}
	})
}

// TestRefusedStarts checks that starts are refused whose policies are not known, and those of queues of the server's.
func TestRefusedStarts(t *testing.T) {
	faced(t, func(f *face) {
		for name, change := range map[string]func(q *startRequest){
			"a reuse policy":    func(q *startRequest) { q.WorkflowIdReusePolicy = 99 },
			"a conflict policy": func(q *startRequest) { q.WorkflowIdConflictPolicy = -1 },
			"a queue":           func(q *startRequest) { q.TaskQueue.Name = "/_sys/x/1" },
		} {
			if err := f.ask("StartWorkflowExecution", startOf(change)); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestSearchAttributes checks that workflows are found by their attributes, by what is joined with OR, and by what
// lists of runs do not have.
func TestSearchAttributes(t *testing.T) {
	bubble(t, func(b *bed) {
		for _, color := range []string{"red", "blue", "green"} {
			q := startIn(Namespace, color)
			q.SearchAttributes = &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
				"CustomKeywordField": {Data: []byte(`"` + color + `"`)},
			}}
			if _, err := b.server.StartWorkflowExecution(b.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		for query, want := range map[string]string{
			"CustomKeywordField = 'red'":                                      "red",
			"NOT CustomKeywordField = 'red'":                                  "blue green",
			"CustomKeywordField IN ('red', 'blue') AND NOT WorkflowId='blue'": "red",
			"CustomKeywordField STARTS_WITH 'gr' OR WorkflowId = 'blue'":      "blue green",
			"(CustomKeywordField = 'red' OR CloseTime IS NOT NULL)":           "red",
			"HistoryLength > 0 AND RootWorkflowId = 'green'":                  "green",
		} {
			out, err := b.server.ListWorkflowExecutions(b.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Namespace: Namespace, Query: query,
			})
			if err != nil {
				t.Errorf("%s: %v", query, err)
				continue
			}
			var ids []string
			for _, one := range out.Executions {
				ids = append(ids, one.Execution.WorkflowId)
			}
			count, err := b.server.CountWorkflowExecutions(b.Context(), &workflowservice.CountWorkflowExecutionsRequest{
				Namespace: Namespace, Query: query,
			})
			slices.Sort(ids)
			if got := strings.Join(ids, " "); got != want || err != nil || count.Count != int64(len(ids)) {
				t.Errorf("%s selects %s, want %s; %d are counted, %v", query, got, want, count.GetCount(), err)
			}
		}
	})
}
