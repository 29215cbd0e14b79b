package temporal

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestTranscripts plays the transcripts under testdata/transcripts: what a client and a worker do, one action a line,
// and which events the history has then. After each action the history is compared with what was shown before, and
// with what the stored entries fold to. The files freeze the histories: what an entry has become may not change, since
// workers replay it. So -rewrite is for new files and lines only.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			defer b.close()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				b.T = t
				var out strings.Builder
				for _, line := range strings.Split(d.Cmd+" "+argsOf(d)+"\n"+d.Input, "\n") {
					if words := strings.Fields(line); len(words) > 0 {
						out.WriteString(b.act(words))
						synctest.Wait()
					}
				}
				synctest.Wait()
				var heard []string
				for len(b.heard) > 0 {
					heard = append(heard, <-b.heard)
				}
				slices.Sort(heard) // several clients hear at the same instant
				out.WriteString(strings.Join(heard, ""))
				out.WriteString(b.grown())
				return out.String()
			})
			b.T = t
			b.writeRuns()
		})
	})
}

func argsOf(d *datadriven.TestData) string {
	var out []string
	for _, a := range d.CmdArgs {
		out = append(out, strings.TrimSuffix(a.String(), " "))
	}
	return strings.Join(out, " ")
}

// act does one thing and tells what is refused.
func (b *bed) act(words []string) string {
	b.Helper()
	o := read(words[1:])
	var err error
	switch words[0] {
	case "start":
		err = b.start(o)
	case "after":
		<-time.After(duration(words[1]).AsDuration())
	case "crash":
		b.close()
		b.open()
	case "take":
		return b.takeTask(o)
	case "answer":
		return b.answer(words[1:])
	case "refuse":
		_, err = b.server.RespondWorkflowTaskFailed(b.Context(), &workflowservice.RespondWorkflowTaskFailedRequest{
			TaskToken: b.task.GetTaskToken(), Identity: "worker", Failure: failure("Panic"),
			Cause: enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE,
		})
	case "signal":
		_, err = b.server.SignalWorkflowExecution(b.Context(), &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: Namespace, WorkflowExecution: b.named(), SignalName: words[1], Input: values("signal"),
			Identity: "client", RequestId: o["request"],
		})
	case "cancel":
		_, err = b.server.RequestCancelWorkflowExecution(b.Context(),
			&workflowservice.RequestCancelWorkflowExecutionRequest{
				Namespace: Namespace, WorkflowExecution: b.named(), Identity: "client", Reason: "enough",
			})
	case "terminate":
		_, err = b.server.TerminateWorkflowExecution(b.Context(), &workflowservice.TerminateWorkflowExecutionRequest{
			Namespace: Namespace, WorkflowExecution: b.named(), Identity: "client", Reason: "enough",
		})
	case "next":
		b.next()
	case "look":
		b.look(words[1])
	case "family":
		return b.family()
	case "ask":
		b.ask(o)
	case "signal-start":
		_, err = b.server.SignalWithStartWorkflowExecution(b.Context(),
			&workflowservice.SignalWithStartWorkflowExecutionRequest{
				Namespace: Namespace, WorkflowId: b.id, WorkflowType: &commonpb.WorkflowType{Name: "Work"},
				TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue}, SignalName: words[1], SignalInput: values("signal"),
				WorkflowStartDelay: duration(o["delay"]), RequestId: o["request"],
			})
		b.next()
	case "reply":
		_, err = b.server.RespondQueryTaskCompleted(b.Context(), &workflowservice.RespondQueryTaskCompletedRequest{
			Namespace: Namespace, TaskToken: b.task.GetTaskToken(), QueryResult: values(words[1]),
			CompletedType: enumspb.QUERY_RESULT_TYPE_ANSWERED,
		})
	default:
		return b.actOfActivity(words, o)
	}
	return refusal(words, err)
}

func refusal(words []string, err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s\n", strings.Join(words, " "), hidden(err.Error()))
}

var runID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// hidden replaces ids of runs, which differ each time.
func hidden(text string) string { return runID.ReplaceAllString(text, "RUN") }

func (b *bed) named() *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: b.id, RunId: b.run}
}

// next looks at the next run of the chain.
func (b *bed) next() {
	b.Helper()
	out, err := b.server.DescribeWorkflowExecution(b.Context(), &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: b.id},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.run, b.known = out.WorkflowExecutionInfo.Execution.RunId, nil
}

// data returns the data of payloads.
func data(p *commonpb.Payloads) string {
	var out []string
	for _, one := range p.GetPayloads() {
		out = append(out, string(one.Data))
	}
	return strings.Join(out, ",")
}

// ask asks the worker, who answers later.
func (b *bed) ask(o options) {
	go func() {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		out, err := b.server.QueryWorkflow(ctx, &workflowservice.QueryWorkflowRequest{
			Namespace: Namespace, Execution: b.named(), Query: &querypb.WorkflowQuery{QueryType: "state"},
			QueryRejectCondition: enumspb.QueryRejectCondition(enumspb.QueryRejectCondition_value[o["reject"]]),
		})
		text := fmt.Sprintf("the query: %s %s\n", data(out.GetQueryResult()), out.GetQueryRejected().GetStatus())
		if err != nil {
			text = fmt.Sprintf("the query: %v\n", err)
		}
		b.heard <- text
	}()
	synctest.Wait()
}

// takeTask asks for a workflow task.
func (b *bed) takeTask(o options) string {
	ctx, cancel := b.briefly()
	defer cancel()
	q := &taskqueuepb.TaskQueue{Name: bedQueue}
	if o["queue"] != "" {
		q.Name = o["queue"]
	}
	if o["sticky"] != "" {
		q = &taskqueuepb.TaskQueue{Name: o["sticky"], Kind: enumspb.TASK_QUEUE_KIND_STICKY, NormalName: bedQueue}
	}
	task, err := b.server.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: Namespace, TaskQueue: q, Identity: "worker",
	})
	if err != nil || len(task.TaskToken) == 0 {
		return refusal([]string{"take"}, err) + "take: there is none\n"
	}
	b.task = task
	events := task.History.Events
	if task.Query != nil {
		return fmt.Sprintf("task: a query, %d events\n", len(events))
	}
	text := fmt.Sprintf("task: attempt %d, events %d to %d, the last answered one began with %d\n", task.Attempt,
		events[0].EventId, events[len(events)-1].EventId, task.PreviousStartedEventId)
	for _, m := range task.Messages {
		text += fmt.Sprintf("task: the update %s, behind event %d\n", m.ProtocolInstanceId, m.GetEventId())
	}
	if len(task.Queries) > 0 {
		text += fmt.Sprintf("task: it has %d queries\n", len(task.Queries))
	}
	return text
}

// answer answers the task at hand with commands, which semicolons separate.
func (b *bed) answer(words []string) string {
	q := &workflowservice.RespondWorkflowTaskCompletedRequest{
		Namespace: Namespace, TaskToken: b.task.GetTaskToken(), Identity: "worker",
	}
	for _, text := range strings.Split(strings.Join(words, " "), ";") {
		c := strings.Fields(text)
		switch {
		case len(c) == 0:
		case c[0] == "tell":
			q.QueryResults = map[string]*querypb.WorkflowQueryResult{}
			for id := range b.task.GetQueries() {
				q.QueryResults[id] = &querypb.WorkflowQueryResult{
					ResultType: enumspb.QUERY_RESULT_TYPE_ANSWERED, Answer: values(c[1]),
				}
			}
		case c[0] == "again":
			q.ForceCreateNewWorkflowTask = true
		case c[0] == "sticky":
			q.StickyAttributes = &taskqueuepb.StickyExecutionAttributes{
				WorkerTaskQueue:        &taskqueuepb.TaskQueue{Name: c[1], Kind: enumspb.TASK_QUEUE_KIND_STICKY},
				ScheduleToStartTimeout: duration("5s"),
			}
		case c[0] == "inline":
			q.ReturnNewWorkflowTask = true
		case b.says(q, c):
		default:
			q.Commands = append(q.Commands, command(c))
		}
	}
	out, err := b.server.RespondWorkflowTaskCompleted(b.Context(), q)
	return refusal([]string{"answer"}, err) + b.replied(out)
}

// actOfActivity does what a worker of activities does, or an operator.
func (b *bed) actOfActivity(words []string, o options) string {
	b.Helper()
	var err error
	token := b.acts[words[min(1, len(words)-1)]]
	switch words[0] {
	case "work":
		ctx, cancel := b.briefly()
		defer cancel()
		t, err := b.server.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue}, Identity: "worker",
		})
		if err != nil || len(t.TaskToken) == 0 {
			return refusal(words, err) + "work: there is none\n"
		}
		b.acts[t.ActivityId] = t.TaskToken
		return fmt.Sprintf("work: %s attempt %d of %s, details %q\n", t.ActivityId, t.Attempt,
			t.WorkflowExecution.WorkflowId, data(t.GetHeartbeatDetails()))
	case "done":
		_, err = b.server.RespondActivityTaskCompleted(b.Context(),
			&workflowservice.RespondActivityTaskCompletedRequest{TaskToken: token, Result: values("result")})
	case "broken":
		_, err = b.server.RespondActivityTaskFailed(b.Context(), &workflowservice.RespondActivityTaskFailedRequest{
			TaskToken: token, Failure: failure(o["type"]),
		})
	case "stopped":
		_, err = b.server.RespondActivityTaskCanceled(b.Context(),
			&workflowservice.RespondActivityTaskCanceledRequest{TaskToken: token, Details: values("stopped")})
	case "beat":
		out, err := b.server.RecordActivityTaskHeartbeat(b.Context(),
			&workflowservice.RecordActivityTaskHeartbeatRequest{TaskToken: token, Details: values("half")})
		if err != nil {
			return refusal(words, err)
		}
		return fmt.Sprintf("beat: it is to stop: %t\n", out.CancelRequested)
	case "operate":
		err = b.operate(words[1:])
	default:
		return b.actOfUpdate(words, o)
	}
	return refusal(words, err)
}

// operate does what an operator does with Pawl's own commands.
func (b *bed) operate(words []string) error {
	b.Helper()
	in := core.Operation{Step: core.NoStep, Actor: "operator"}
	if err := in.Op.UnmarshalText([]byte(words[0])); err != nil {
		b.Fatal(err)
	}
	if len(words) > 1 {
		n := 0
		_, _ = fmt.Sscan(words[1], &n)
		in.Step, in.Output = core.StepID(n), []byte(`"given"`)
	}
	id, err := core.ParseRunID(b.run)
	if err != nil {
		b.Fatal(err)
	}
	return b.engine.Operate(b.Context(), id, in)
}

// grown tells the events that the history has besides those that were told.
func (b *bed) grown() string {
	b.Helper()
	if b.run == "" {
		return ""
	}
	before := len(b.known)
	var out strings.Builder
	for _, e := range b.history()[before:] {
		fmt.Fprintf(&out, "%d %s%s\n", e.EventId, strings.TrimPrefix(e.EventType.String(), "EVENT_TYPE_"), told(b.T, e))
	}
	return out.String()
}

// told returns what of an event is worth telling: the fields that are not the same everywhere.
func told(t *testing.T, e *historypb.HistoryEvent) string {
	t.Helper()
	short := &historypb.HistoryEvent{Attributes: e.Attributes}
	text, err := protojson.Marshal(short)
	if err != nil {
		t.Fatal(err)
	}
	out := hidden(string(text))
	out = regexp.MustCompile(`^\{"\w+":\s*`).ReplaceAllString(out, " ")
	out = regexp.MustCompile(`("[^"]*")|\s+`).ReplaceAllString(out, "$1")
	out = regexp.MustCompile(`"historySizeBytes":"\d+",?|"taskQueue":\{"name":"desk"\},?`).ReplaceAllString(out, "")
	return " " + strings.TrimSpace(strings.ReplaceAll(strings.TrimSuffix(out, "}"), ",}", "}"))
}
