package temporal

import (
	"bytes"
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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
	"github.com/pawl-dev/pawl/internal/temporal/history"
	"github.com/pawl-dev/pawl/internal/worker"
	"github.com/pawl-dev/pawl/policy"
)

// bed is an engine with a gateway, and one workflow that is tried. Time goes by when all wait.
type bed struct {
	*testing.T
	journal journal.Journal
	engine  *engine.Engine
	server  *Frontend
	id, run string

	task  *workflowservice.PollWorkflowTaskQueueResponse // the task at hand
	acts  map[string][]byte                              // tokens of attempts at hand, by the ids of their activities
	known [][]byte                                       // the events that anybody was shown
	heard chan string                                    // answers to queries
	left  map[string][][]byte                            // the known events of runs that were looked at before
}

const bedQueue = "desk"

// newBed opens an engine on an empty journal.
func newBed(t *testing.T) *bed {
	b := &bed{
		T: t, journal: memory.New(), id: "wf", acts: map[string][]byte{}, heard: make(chan string, 100),
		left: map[string][][]byte{},
	}
	b.open()
	return b
}

// open opens an engine on the journal.
func (b *bed) open() {
	b.Helper()
	now := func() core.Time { return policy.At(time.Now()) }
	g := New(Settings{Clock: worker.Clock{Now: now}})
	kinds := g.Kinds(nil, nil)
	kinds[journal.KindFlow] = engine.Kind{Compile: compileFlow}
	e, err := engine.New(engine.Config{Journal: b.journal, Kinds: kinds, Now: now})
	if err == nil {
		err = g.Open(e)
	}
	if err == nil {
		err = e.Open(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.engine, b.server = e, NewProtocol(ProtocolConfig{}, g).front(Namespace)
}

// close closes the engine.
func (b *bed) close() {
	b.server.Drain()
	_ = b.engine.Close() // an error says that something was not saved
	b.server.Gateway.Close()
	_ = b.server.server.Close()
	synctest.Wait()
}

// bubble runs a test in which time goes by when all wait.
func bubble(t *testing.T, test func(b *bed)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		defer b.close()
		test(b)
	})
}

func duration(text string) *durationpb.Duration {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return durationpb.New(d)
}

func values(texts ...string) *commonpb.Payloads {
	out := &commonpb.Payloads{}
	for _, text := range texts {
		out.Payloads = append(out.Payloads, &commonpb.Payload{
			Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"` + text + `"`),
		})
	}
	return out
}

func failure(kind string) *failurepb.Failure {
	return &failurepb.Failure{Message: "it failed", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: kind},
	}}
}

// options are words such as retry=2 and queue=a.
type options map[string]string

func read(words []string) options {
	o := options{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		o[key] = value
	}
	return o
}

// start starts the workflow.
func (b *bed) start(o options) error {
	q := &workflowservice.StartWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowId: b.id, WorkflowType: &commonpb.WorkflowType{Name: "Work"},
		TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue}, Input: values("in"), Identity: "starter",
		RequestId: o["request"], WorkflowExecutionTimeout: duration(o["execution"]),
		WorkflowRunTimeout: duration(o["run"]), WorkflowTaskTimeout: duration(o["task"]),
		WorkflowStartDelay: duration(o["delay"]), CronSchedule: strings.ReplaceAll(o["cron"], "_", " "),
	}
	if o["retry"] != "" {
		q.RetryPolicy = retry(o)
	}
	if n := enumspb.WorkflowIdReusePolicy_value[o["reuse"]]; n != 0 {
		q.WorkflowIdReusePolicy = enumspb.WorkflowIdReusePolicy(n)
	}
	if n := enumspb.WorkflowIdConflictPolicy_value[o["conflict"]]; n != 0 {
		q.WorkflowIdConflictPolicy = enumspb.WorkflowIdConflictPolicy(n)
	}
	q.RequestEagerExecution = o["eager"] != ""
	out, err := b.server.StartWorkflowExecution(b.Context(), q)
	if err == nil && out.RunId != b.run {
		b.run, b.known = out.RunId, nil
	}
	if out.GetEagerWorkflowTask() != nil {
		b.task = out.EagerWorkflowTask
	}
	return err
}

func retry(o options) *commonpb.RetryPolicy {
	p := &commonpb.RetryPolicy{InitialInterval: duration("1s")}
	_, _ = fmt.Sscan(o["retry"], &p.MaximumAttempts) // 0: any number
	if o["never"] != "" {
		p.NonRetryableErrorTypes = strings.Split(o["never"], ",")
	}
	return p
}

// command makes one command of a worker.
func command(words []string) *commandpb.Command {
	c, o := &commandpb.Command{}, read(words[1:])
	name := ""
	if len(words) > 1 {
		name = words[1]
	}
	switch words[0] {
	case "activity":
		c.CommandType = enumspb.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK
		a := &commandpb.ScheduleActivityTaskCommandAttributes{
			ActivityId: name, ActivityType: &commonpb.ActivityType{Name: "Act"}, Input: values(name),
			ScheduleToCloseTimeout: duration(o["whole"]), ScheduleToStartTimeout: duration(o["wait"]),
			StartToCloseTimeout: duration(o["attempt"]), HeartbeatTimeout: duration(o["beat"]),
			RequestEagerExecution: o["eager"] != "",
		}
		if _, is := o["retry"]; is {
			a.RetryPolicy = retry(o)
		}
		c.Attributes = &commandpb.Command_ScheduleActivityTaskCommandAttributes{
			ScheduleActivityTaskCommandAttributes: a,
		}
	case "cancel-activity":
		c.CommandType = enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK
		a := &commandpb.RequestCancelActivityTaskCommandAttributes{}
		_, _ = fmt.Sscan(name, &a.ScheduledEventId)
		c.Attributes = &commandpb.Command_RequestCancelActivityTaskCommandAttributes{
			RequestCancelActivityTaskCommandAttributes: a,
		}
	case "timer":
		c.CommandType = enumspb.COMMAND_TYPE_START_TIMER
		c.Attributes = &commandpb.Command_StartTimerCommandAttributes{
			StartTimerCommandAttributes: &commandpb.StartTimerCommandAttributes{
				TimerId: name, StartToFireTimeout: duration(words[2]),
			},
		}
	case "cancel-timer":
		c.CommandType = enumspb.COMMAND_TYPE_CANCEL_TIMER
		c.Attributes = &commandpb.Command_CancelTimerCommandAttributes{
			CancelTimerCommandAttributes: &commandpb.CancelTimerCommandAttributes{TimerId: name},
		}
	case "marker":
		c.CommandType = enumspb.COMMAND_TYPE_RECORD_MARKER
		c.Attributes = &commandpb.Command_RecordMarkerCommandAttributes{
			RecordMarkerCommandAttributes: &commandpb.RecordMarkerCommandAttributes{MarkerName: name},
		}
	default:
		if !commandOfRuns(c, words[0], name, o) {
			ending(c, words[0])
		}
	}
	return c
}

// ending makes a command that ends the run.
func ending(c *commandpb.Command, how string) {
	switch how {
	case "complete":
		c.CommandType = enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{
			CompleteWorkflowExecutionCommandAttributes: &commandpb.CompleteWorkflowExecutionCommandAttributes{
				Result: values("out"),
			},
		}
	case "fail":
		c.CommandType = enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_FailWorkflowExecutionCommandAttributes{
			FailWorkflowExecutionCommandAttributes: &commandpb.FailWorkflowExecutionCommandAttributes{
				Failure: failure("Wrong"),
			},
		}
	case "cancel":
		c.CommandType = enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_CancelWorkflowExecutionCommandAttributes{
			CancelWorkflowExecutionCommandAttributes: &commandpb.CancelWorkflowExecutionCommandAttributes{
				Details: values("bye"),
			},
		}
	case "new":
		c.CommandType = enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION
		c.Attributes = &commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
			ContinueAsNewWorkflowExecutionCommandAttributes: &commandpb.ContinueAsNewWorkflowExecutionCommandAttributes{
				Input: values("next"),
			},
		}
	}
}

// briefly returns the context of somebody who does not wait long.
func (b *bed) briefly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.Context(), 1500*time.Millisecond)
}

// history returns the history as anybody sees it, and checks that it only grows, that its ids have no gaps, and that it
// is the same when it is folded from the stored entries.
func (b *bed) history() []*historypb.HistoryEvent {
	b.Helper()
	out, err := b.server.GetWorkflowExecutionHistory(b.Context(), &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: b.id, RunId: b.run},
	})
	if err != nil {
		b.Fatal(err)
	}
	events := out.History.Events
	for i, e := range events {
		text := encoded(b.T, e)
		if e.EventId != int64(i)+1 {
			b.Fatalf("event %d has the id %d", i+1, e.EventId)
		}
		if i < len(b.known) && !bytes.Equal(text, b.known[i]) {
			b.Fatalf("event %d was shown otherwise before: now %s", i+1, e)
		}
		if i >= len(b.known) {
			b.known = append(b.known, text)
		}
	}
	if len(events) < len(b.known) {
		b.Fatalf("%d events are shown, after %d", len(events), len(b.known))
	}
	b.refold(events)
	return events
}

// refold folds the stored entries again.
func (b *bed) refold(shown []*historypb.HistoryEvent) {
	b.Helper()
	id, err := core.ParseRunID(b.run)
	if err != nil {
		b.Fatal(err)
	}
	entries, err := b.engine.Entries(b.Context(), id, 0)
	if err != nil {
		b.Fatal(err)
	}
	f := history.New(id)
	for _, e := range entries {
		src := core.AppendEntry(nil, &e)
		again, _, err := core.ReadEntry(src)
		if err != nil {
			b.Fatal(err)
		}
		f.Add(again)
	}
	for i, e := range f.View(len(entries)) {
		if i < len(shown) && !bytes.Equal(encoded(b.T, e), encoded(b.T, shown[i])) {
			b.Fatalf("folded again, event %d is %s, and not %s", i+1, e, shown[i])
		}
	}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
