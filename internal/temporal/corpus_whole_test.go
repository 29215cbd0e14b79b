package temporal

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/internal/core"
)

func value(text string) *commonpb.Payload { return values(text).Payloads[0] }

func headerOf(text string) *commonpb.Header {
	return &commonpb.Header{Fields: map[string]*commonpb.Payload{"h": value(text)}}
}

func memoOf(text string) *commonpb.Memo {
	return &commonpb.Memo{Fields: map[string]*commonpb.Payload{"m": value(text)}}
}

func searchOf(text string) *commonpb.SearchAttributes {
	return &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{"s": value(text)}}
}

func metadataOf(text string) *sdkpb.UserMetadata {
	return &sdkpb.UserMetadata{Summary: value(text), Details: value(text)}
}

var highPriority = &commonpb.Priority{PriorityKey: 1}

// wholeCommands returns commands that say all that they may say.
func wholeCommands() []*commandpb.Command {
	activity := command([]string{"activity", "a", "attempt=1s", "retry=2"})
	a := activity.GetScheduleActivityTaskCommandAttributes()
	a.Header, a.Priority = headerOf("activity"), highPriority
	timer := command([]string{"timer", "t", "1h"})
	marker := command([]string{"marker", "m"})
	m := marker.GetRecordMarkerCommandAttributes()
	m.Details = map[string]*commonpb.Payloads{"d": values("d")}
	m.Header, m.Failure = headerOf("marker"), failure("Marked")
	child := command([]string{"child", "kid", "run=1h", "execution=2h", "retry=2"})
	c := child.GetStartChildWorkflowExecutionCommandAttributes()
	c.Header, c.Memo, c.SearchAttributes = headerOf("child"), memoOf("child"), searchOf("child")
	c.Priority, c.WorkflowTaskTimeout, c.CronSchedule = highPriority, duration("5s"), "@every 1h"
	other := command([]string{"child", "other"})
	other.GetStartChildWorkflowExecutionCommandAttributes().Header = headerOf("other")
	signal := command([]string{"signal-run", "full"})
	s := signal.GetSignalExternalWorkflowExecutionCommandAttributes()
	s.Header, s.Control = headerOf("signal"), "1"
	cancel := command([]string{"cancel-run", "nobody"})
	cancel.GetRequestCancelExternalWorkflowExecutionCommandAttributes().Control = "2"
	all := []*commandpb.Command{activity, timer, marker, child, other, signal, cancel, {
		CommandType: enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
		Attributes: &commandpb.Command_UpsertWorkflowSearchAttributesCommandAttributes{
			UpsertWorkflowSearchAttributesCommandAttributes: &commandpb.
				UpsertWorkflowSearchAttributesCommandAttributes{SearchAttributes: searchOf("upserted")},
		},
	}, {
		CommandType: enumspb.COMMAND_TYPE_MODIFY_WORKFLOW_PROPERTIES,
		Attributes: &commandpb.Command_ModifyWorkflowPropertiesCommandAttributes{
			ModifyWorkflowPropertiesCommandAttributes: &commandpb.ModifyWorkflowPropertiesCommandAttributes{
				UpsertedMemo: memoOf("upserted"),
			},
		},
	}}
	for _, c := range all {
		c.UserMetadata = metadataOf("command")
	}
	return all
}

// TestWholeRuns starts a workflow, and answers its tasks, with all that the requests may say. All of it is in the
// history, of which TestCorpus of the fold has a copy.
func TestWholeRuns(t *testing.T) {
	bubble(t, func(b *bed) {
		b.fill("full")
		_, err := b.server.SignalWithStartWorkflowExecution(b.Context(),
			&workflowservice.SignalWithStartWorkflowExecutionRequest{
				Namespace: Namespace, WorkflowId: b.id, WorkflowType: &commonpb.WorkflowType{Name: "Work"},
				TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue}, Input: values("in"), Header: headerOf("start"),
				Memo: memoOf("start"), SearchAttributes: searchOf("start"), UserMetadata: metadataOf("start"),
				Priority: highPriority, SignalName: "hello", SignalInput: values("signal"), Identity: "starter",
			})
		if err != nil {
			b.Fatal(err)
		}
		b.next()
		b.answerWhole(wholeCommands())
		synctest.Wait()
		next := command([]string{"new-as", "Work"})
		n := next.GetContinueAsNewWorkflowExecutionCommandAttributes()
		n.Header, n.Memo, n.SearchAttributes = headerOf("next"), memoOf("next"), searchOf("next")
		n.Failure, n.LastCompletionResult = failure("Before"), values("last")
		b.answerWhole([]*commandpb.Command{next})
		for _, part := range []string{"start", "command", "activity", "marker", "child", "signal", "upserted", "next"} {
			if !slices.ContainsFunc(b.known, func(e []byte) bool { return bytes.Contains(e, []byte(part)) }) {
				b.Errorf("no event has what the %s says", part)
			}
		}
		b.writeRuns()
	})
}

// fill starts a workflow that can take no more events.
func (b *bed) fill(id string) {
	b.Helper()
	own := b.id
	b.id = id
	b.must([2]string{"start", ""})
	b.takeTask(options{}) // and keeps it
	run, err := core.ParseRunID(b.run)
	if err != nil {
		b.Fatal(err)
	}
	large := make([]byte, 2<<20)
	for err == nil {
		err = b.engine.Signal(b.Context(), run, core.SignalReceived{Name: "more", Payload: large}, false)
	}
	b.id = own
}

// answerWhole answers the task that is due.
func (b *bed) answerWhole(commands []*commandpb.Command) {
	b.Helper()
	b.takeTask(options{})
	_, err := b.server.RespondWorkflowTaskCompleted(b.Context(), &workflowservice.RespondWorkflowTaskCompletedRequest{
		Namespace: Namespace, TaskToken: b.task.GetTaskToken(), Identity: "worker", Commands: commands,
		SdkMetadata:      &sdkpb.WorkflowTaskCompletedMetadata{SdkName: "sdk", SdkVersion: "1.2.3"},
		MeteringMetadata: &commonpb.MeteringMetadata{NonfirstLocalActivityExecutionAttempts: 3},
		QueryResults:     map[string]*querypb.WorkflowQueryResult{},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.history()
}
