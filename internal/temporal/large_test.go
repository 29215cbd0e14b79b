package temporal

import (
	"slices"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestLargeReportsOfActivities checks that an activity whose result is too large fails, and that details of a heartbeat
// that are too large are refused.
func TestLargeReportsOfActivities(t *testing.T) {
	faced(t, func(f *face) {
		f.must([2]string{"start", ""})
		f.takeTask(options{})
		f.must([2]string{"answer activity a attempt=1h", ""})
		f.act(words("work"))
		large := values(strings.Repeat("x", 3<<20))
		err := f.ask("RecordActivityTaskHeartbeat", &workflowservice.RecordActivityTaskHeartbeatRequest{
			Namespace: Namespace, TaskToken: f.acts["a"], Details: large,
		})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("the heartbeat: %v", err)
		}
		err = f.ask("RespondActivityTaskCompleted", &workflowservice.RespondActivityTaskCompletedRequest{
			Namespace: Namespace, TaskToken: f.acts["a"], Result: large,
		})
		if err != nil {
			t.Error(err)
		}
		if f.activityFailure() == nil {
			t.Error("the activity has not failed")
		}
	})
}

// TestLargeFailures checks that a failure is kept as it came while it can be, and that one which is too large becomes
// one that is not tried again, and says how the other began.
func TestLargeFailures(t *testing.T) {
	large := func(message, stack, data int) *failurepb.Failure {
		out := failure("large")
		out.Message, out.StackTrace = strings.Repeat("m", message), strings.Repeat("s", stack)
		out.GetApplicationFailureInfo().Details = values(strings.Repeat("d", data))
		return out
	}
	for name, c := range map[string]struct {
		sent *failurepb.Failure
		kept bool
	}{
		"data of a mebibyte":   {large(10, 10, 1<<20), true},
		"message of mebibytes": {large(3<<20, 10, 10), false},
		"stack of mebibytes":   {large(10, 3<<20, 10), false},
		"data of mebibytes":    {large(10, 10, 3<<20), false},
	} {
		t.Run(name, func(t *testing.T) {
			faced(t, func(f *face) {
				f.must([2]string{"start", ""})
				f.takeTask(options{})
				f.must([2]string{"answer activity a attempt=1h retry=1", ""})
				f.act(words("work"))
				err := f.ask("RespondActivityTaskFailed", &workflowservice.RespondActivityTaskFailedRequest{
					Namespace: Namespace, TaskToken: f.acts["a"], Failure: c.sent,
				})
				if err != nil {
					f.Fatal(err)
				}
				got := f.activityFailure()
				switch {
				case c.kept && !proto.Equal(got, c.sent):
					f.Errorf("it was not kept: %d bytes, %.100s", proto.Size(got), got.GetMessage())
				case !c.kept && (got.GetMessage() != "Failure exceeds size limit." || proto.Size(got) > 64<<10 ||
					!got.GetServerFailureInfo().GetNonRetryable() || got.Cause.GetMessage()[:10] != "mmmmmmmmmm"):
					f.Errorf("%d bytes are kept: %.100s", proto.Size(got), got)
				}
			})
		})
	}
}

// activityFailure returns the failure of the activity, according to the history; nil: there is none.
func (f *face) activityFailure() *failurepb.Failure {
	f.Helper()
	events := f.history()
	i := slices.IndexFunc(events, func(e *historypb.HistoryEvent) bool {
		return e.EventType == enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED
	})
	if i < 0 {
		return nil
	}
	return events[i].GetActivityTaskFailedEventAttributes().Failure
}
