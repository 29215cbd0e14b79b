package temporal

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/memnet"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
)

// rawBytes is a codec of a client that sends any bytes.
type rawBytes struct{}

func (rawBytes) Name() string                    { return "proto" }
func (rawBytes) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawBytes) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }

// face is a client of a server, over a connection in memory.
type face struct {
	*bed
	conn *grpc.ClientConn
}

// faced runs a test with a client.
func faced(t *testing.T, test func(f *face)) {
	bubble(t, func(b *bed) {
		l := memnet.Listen()
		go func() { _ = b.server.server.Serve(l) }()
		conn, err := grpc.NewClient("passthrough:///memory",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return l.Dial(ctx, "tcp", "memory")
			}))
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			_ = conn.Close()
			_ = b.server.server.Close()
			synctest.Wait()
		}()
		test(&face{b, conn})
	})
}

// send sends bytes to a method.
func (f *face) send(method string, raw []byte) error {
	ctx, cancel := f.briefly()
	defer cancel()
	var out []byte
	return f.conn.Invoke(ctx, "/temporal.api.workflowservice.v1.WorkflowService/"+method, raw, &out,
		grpc.ForceCodec(rawBytes{}))
}

func (f *face) ask(method string, q proto.Message) error {
	raw, err := proto.Marshal(q)
	if err != nil {
		f.Fatal(err)
	}
	return f.send(method, raw)
}

// broken returns a request in which one text is not UTF-8.
func broken(q proto.Message, text string) []byte {
	raw, err := proto.Marshal(q)
	if err != nil {
		panic(err)
	}
	return []byte(strings.ReplaceAll(string(raw), text, strings.Repeat("\xff", len(text))))
}

func startOf(change func(*workflowservice.StartWorkflowExecutionRequest)) proto.Message {
	q := &workflowservice.StartWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowId: "other", WorkflowType: &commonpb.WorkflowType{Name: "Work"},
		TaskQueue: &taskqueuepb.TaskQueue{Name: "elsewhere"},
	}
	change(q)
	return q
}

type startRequest = workflowservice.StartWorkflowExecutionRequest

var (
	long   = strings.Repeat("x", maxID+1)
	nobody = &commonpb.WorkflowExecution{WorkflowId: "nobody"}
	badRun = &commonpb.WorkflowExecution{WorkflowId: "wf", RunId: "no run"}
)

// hostile are requests that make no sense, with how they are refused. The text is a part of the error.
var hostile = []struct {
	name, method string
	request      proto.Message
	code         codes.Code
	text         string
}{
	{
		"no namespace", "StartWorkflowExecution", startOf(func(q *startRequest) { q.Namespace = "" }),
		codes.InvalidArgument, "Namespace not set",
	},
	{
		"another namespace", "StartWorkflowExecution", startOf(func(q *startRequest) { q.Namespace = "x" }),
		codes.NotFound, "Namespace x is not found",
	},
	{"another namespace of a poll", "PollWorkflowTaskQueue", &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: "x", TaskQueue: &taskqueuepb.TaskQueue{Name: bedQueue},
	}, codes.NotFound, "Namespace x is not found"},
	{
		"a method that is not served", "CreateSchedule", &workflowservice.CreateScheduleRequest{Namespace: Namespace},
		codes.Unimplemented, "CreateSchedule",
	},
	{
		"no id", "StartWorkflowExecution", startOf(func(q *startRequest) { q.WorkflowId = "" }),
		codes.InvalidArgument, "WorkflowId is not set",
	},
	{
		"a long id", "StartWorkflowExecution", startOf(func(q *startRequest) { q.WorkflowId = long }),
		codes.InvalidArgument, "WorkflowId length",
	},
	{
		"no type", "StartWorkflowExecution", startOf(func(q *startRequest) { q.WorkflowType = nil }),
		codes.InvalidArgument, "WorkflowType is not set",
	},
	{
		"a long type", "StartWorkflowExecution", startOf(func(q *startRequest) { q.WorkflowType.Name = long }),
		codes.InvalidArgument, "WorkflowType length",
	},
	{
		"no queue", "StartWorkflowExecution", startOf(func(q *startRequest) { q.TaskQueue = nil }),
		codes.InvalidArgument, "task queue",
	},
	{"a negative timeout", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.WorkflowRunTimeout = &durationpb.Duration{Seconds: -1}
	}), codes.InvalidArgument, "workflowRunTimeout"},
	{"a timeout that is none", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.WorkflowTaskTimeout = &durationpb.Duration{Nanos: 2_000_000_000}
	}), codes.InvalidArgument, "workflowTaskTimeout"},
	{"a negative delay", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.WorkflowStartDelay = &durationpb.Duration{Seconds: -1}
	}), codes.InvalidArgument, "workflowStartDelay"},
	{"negative attempts", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.RetryPolicy = &commonpb.RetryPolicy{MaximumAttempts: -1}
	}), codes.InvalidArgument, "maximumAttempts"},
	{"a shrinking backoff", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.RetryPolicy = &commonpb.RetryPolicy{BackoffCoefficient: 0.5}
	}), codes.InvalidArgument, "backoffCoefficient"},
	{
		"no timetable", "StartWorkflowExecution", startOf(func(q *startRequest) { q.CronSchedule = "61 * * * *" }),
		codes.InvalidArgument, "cronSchedule",
	},
	{"a negative priority", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.Priority = &commonpb.Priority{PriorityKey: -1}
	}), codes.InvalidArgument, "priority"},
	{"a large input", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.Input = values(strings.Repeat("x", 3<<20))
	}), codes.ResourceExhausted, "bytes"},
	{"a request that is too large", "StartWorkflowExecution", startOf(func(q *startRequest) {
		q.Input = values(strings.Repeat("x", maxMessage))
	}), codes.ResourceExhausted, "larger than max"},
	{"an event to nobody", "SignalWorkflowExecution", &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody, SignalName: "go",
	}, codes.NotFound, "workflow not found"},
	{"an event without a name", "SignalWorkflowExecution", &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "wf"},
	}, codes.InvalidArgument, "SignalName"},
	{"an event to no run", "SignalWorkflowExecution", &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: badRun, SignalName: "go",
	}, codes.InvalidArgument, "RunId"},
	{"an event to nothing", "SignalWorkflowExecution", &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: Namespace, SignalName: "go",
	}, codes.InvalidArgument, "WorkflowId"},
	{"a large event", "SignalWorkflowExecution", &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "wf"}, SignalName: "go",
		Input: values(strings.Repeat("x", 3<<20)),
	}, codes.ResourceExhausted, "bytes"},
	{"a cancel of nobody", "RequestCancelWorkflowExecution", &workflowservice.RequestCancelWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody,
	}, codes.NotFound, "workflow not found"},
	{"the end of nobody", "TerminateWorkflowExecution", &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody,
	}, codes.NotFound, "workflow not found"},
	{"a description of nobody", "DescribeWorkflowExecution", &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: Namespace, Execution: nobody,
	}, codes.NotFound, "workflow not found"},
	{"a history of nobody", "GetWorkflowExecutionHistory", &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: Namespace, Execution: nobody,
	}, codes.NotFound, "workflow not found"},
	{"a page that is none", "GetWorkflowExecutionHistory", &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: Namespace, Execution: nobody, NextPageToken: []byte("w"),
	}, codes.InvalidArgument, "NextPageToken"},
	{"a page of a list that is none", "ListWorkflowExecutions", &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: Namespace, NextPageToken: []byte("h"),
	}, codes.InvalidArgument, "NextPageToken"},
	{"a query of a list that is none", "ListWorkflowExecutions", &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: Namespace, Query: "WorkflowId = = 'x'",
	}, codes.InvalidArgument, ""},
	{"a question to nobody", "QueryWorkflow", &workflowservice.QueryWorkflowRequest{
		Namespace: Namespace, Execution: nobody, Query: &querypb.WorkflowQuery{QueryType: "state"},
	}, codes.NotFound, "workflow not found"},
	{"a question without a type", "QueryWorkflow", &workflowservice.QueryWorkflowRequest{
		Namespace: Namespace, Execution: nobody,
	}, codes.InvalidArgument, "QueryType"},
	{"an update of nobody", "UpdateWorkflowExecution", &workflowservice.UpdateWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody, Request: updateRequest("u"),
	}, codes.NotFound, "workflow not found"},
	{"no update", "UpdateWorkflowExecution", &workflowservice.UpdateWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody,
	}, codes.InvalidArgument, "Request is not set"},
	{"a large update", "UpdateWorkflowExecution", &workflowservice.UpdateWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody, Request: updateRequest(strings.Repeat("x", 3<<20)),
	}, codes.InvalidArgument, "UpdateID"},
	{"large arguments of an update", "UpdateWorkflowExecution", &workflowservice.UpdateWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody, Request: &updatepb.Request{
			Input: &updatepb.Input{Name: "change", Args: values(strings.Repeat("x", 3<<20))},
		},
	}, codes.InvalidArgument, "size limit"},
	{"an update that is not there", "PollWorkflowExecutionUpdate", &workflowservice.PollWorkflowExecutionUpdateRequest{
		Namespace: Namespace, UpdateRef: &updatepb.UpdateRef{
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "wf"}, UpdateId: "u",
		},
	}, codes.NotFound, "update"},
	{"a reset of nobody", "ResetWorkflowExecution", &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: nobody, WorkflowTaskFinishEventId: 4,
	}, codes.NotFound, "workflow not found"},
	{"a reset to nowhere", "ResetWorkflowExecution", &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: "wf"},
		WorkflowTaskFinishEventId: 1 << 62,
	}, codes.InvalidArgument, "finish ID"},
	{"operations that are none", "ExecuteMultiOperation", &workflowservice.ExecuteMultiOperationRequest{
		Namespace: Namespace,
	}, codes.InvalidArgument, "Operations"},
	{"a poll of no queue", "PollActivityTaskQueue", &workflowservice.PollActivityTaskQueueRequest{
		Namespace: Namespace,
	}, codes.InvalidArgument, "TaskQueue"},
	{"a poll of a long queue", "PollWorkflowTaskQueue", &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: long},
	}, codes.InvalidArgument, "TaskQueue"},
	{
		"an answer without a token", "RespondWorkflowTaskCompleted",
		&workflowservice.RespondWorkflowTaskCompletedRequest{}, codes.InvalidArgument, "TaskToken",
	},
	{
		"an activity that is not there", "RespondActivityTaskCompletedById",
		&workflowservice.RespondActivityTaskCompletedByIdRequest{
			Namespace: Namespace, WorkflowId: "wf", ActivityId: "a",
		}, codes.NotFound, "",
	},
}

// TestHostileRequests checks requests that make no sense, as they come from the network: each is refused as the
// protocol has it, and none of them changes the run that is there.
func TestHostileRequests(t *testing.T) {
	faced(t, func(f *face) {
		f.must([2]string{"start", ""})
		want := len(f.history())
		for _, h := range hostile {
			err := f.ask(h.method, h.request)
			if status.Code(err) != h.code || !strings.Contains(status.Convert(err).Message(), h.text) {
				t.Errorf("%s: %v", h.name, err)
			}
		}
		texts := startOf(func(q *startRequest) { q.Identity = "somebody" })
		for name, raw := range map[string][]byte{
			"no message":           []byte("\xff\xff\xff"),
			"a text in the head":   broken(texts, "somebody"),
			"the name of the type": broken(texts, "Work"),
		} {
			if err := f.send("StartWorkflowExecution", raw); status.Code(err) != codes.Internal {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := len(f.history()); got != want {
			t.Errorf("the history has %d events, and had %d", got, want)
		}
	})
}

// TestHostileAnswers checks answers whose commands make no sense: the task fails, and the workflow goes on.
func TestHostileAnswers(t *testing.T) {
	mixed := command([]string{"timer", "t", "1s"})
	mixed.CommandType = enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION
	unplaced := &commandpb.Command{
		CommandType: enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
		Attributes: &commandpb.Command_ProtocolMessageCommandAttributes{
			ProtocolMessageCommandAttributes: &commandpb.ProtocolMessageCommandAttributes{MessageId: "m"},
		},
	}
	large := command([]string{"complete"})
	large.GetCompleteWorkflowExecutionCommandAttributes().Result = values(strings.Repeat("x", 3<<20))
	for name, c := range map[string]*commandpb.Command{
		"nothing":                       {},
		"no attributes":                 {CommandType: enumspb.COMMAND_TYPE_START_TIMER},
		"an end without attributes":     {CommandType: enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION},
		"a type that is not known":      {CommandType: 99},
		"attributes of another command": mixed,
		"a message that is not there":   unplaced,
		"a timer without time":          command([]string{"timer", "t", "0s"}),
		"a timer in the past":           command([]string{"timer", "t", "-1s"}),
		"a timer that is not there":     command([]string{"cancel-timer", "t"}),
		"an activity that is not there": command([]string{"cancel-activity", "77"}),
		"an activity without limits":    command([]string{"activity", "a"}),
		"a child without an id":         command([]string{"child", ""}),
		"an event for no run":           command([]string{"signal-run", "x", "id=none"}),
		"a large result":                large,
	} {
		faced(t, func(f *face) {
			f.must([2]string{"start", ""})
			f.takeTask(options{})
			token := f.task.TaskToken
			err := f.ask("RespondWorkflowTaskCompleted", &workflowservice.RespondWorkflowTaskCompletedRequest{
				Namespace: Namespace, TaskToken: token, Commands: []*commandpb.Command{c},
			})
			if code := status.Code(err); code != codes.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
			events := f.history()
			last := events[len(events)-1]
			if last.EventType != enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED {
				t.Errorf("%s: the last event is %s", name, last)
			}
			f.takeTask(options{})
			f.must([2]string{"answer complete", ""})
		})
	}
}

// TestForgedFields checks that nobody outside can set what only the gateway adds to requests, and that fields of newer
// versions are kept.
func TestForgedFields(t *testing.T) {
	forged := func(m proto.Message) proto.Message {
		raw := []byte(nil)
		for _, n := range []protowire.Number{1000, 1001, 1002, 5000} {
			raw = protowire.AppendBytes(protowire.AppendTag(raw, n, protowire.BytesType), []byte("\x0a\x02x\x01"))
		}
		m.ProtoReflect().SetUnknown(raw)
		return m
	}
	faced(t, func(f *face) {
		if err := f.ask("StartWorkflowExecution", forged(startOf(func(*startRequest) {}))); err != nil {
			t.Fatal(err)
		}
		f.id = "other"
		f.next()
		input := values("in")
		err := f.ask("SignalWorkflowExecution", &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: Namespace, WorkflowExecution: f.named(), SignalName: "go",
			Input: forged(input).(*commonpb.Payloads),
		})
		if err != nil {
			t.Fatal(err)
		}
		id, err := core.ParseRunID(f.run)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := f.engine.Entries(f.Context(), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		start, payloads := &startRequest{}, &commonpb.Payloads{}
		for _, e := range entries {
			switch rec := e.Records[0].(type) {
			case core.RunCreated:
				err = proto.Unmarshal(rec.Input, start)
			case core.SignalKept:
				err = proto.Unmarshal(rec.Payload, payloads)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range []proto.Message{start, payloads} {
			if convert.Field(m, 5000) == nil {
				t.Errorf("a field of a newer version is lost: %v", m)
			}
			for _, n := range []protowire.Number{1000, 1001, 1002} {
				if convert.Field(m, n) != nil {
					t.Errorf("a caller has set field %d: %v", n, m)
				}
			}
		}
		f.history()
	})
}

// TestAnswerAfterAReset checks that the answer to a task of a run that was reset meanwhile changes nothing.
func TestAnswerAfterAReset(t *testing.T) {
	bubble(t, func(b *bed) {
		b.must([2]string{"start", ""})
		b.takeTask(options{})
		b.must([2]string{"answer timer t 1h", ""}, [2]string{"signal go", ""})
		b.takeTask(options{})
		late := b.task
		b.reset([]string{"reset", "4"}, options{})
		b.task = late
		b.must([2]string{"answer complete", notFound}, [2]string{"refuse", "refuse: Workflow task not found.\n"})
		b.takeTask(options{})
		b.must([2]string{"answer complete", ""}, [2]string{"answer complete", notFound})
	})
}
