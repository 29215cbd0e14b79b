package temporal

import (
	"context"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	querypb "go.temporal.io/api/query/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
)

func readFlow(d journal.Definition) (*flow.Document, error) {
	return flow.Parse(d.Name+".yaml", d.Source)
}

func compileFlow(d journal.Definition) (*core.Definition, error) {
	doc, err := readFlow(d)
	if err != nil {
		return nil, err
	}
	return flow.Compile(doc)
}

// runFlow starts a run of a flow that naps for an hour. It has the workflow id of the bed.
func (b *bed) runFlow() core.RunID {
	b.Helper()
	req := engine.StartRequest{Definition: journal.Definition{
		ID: core.DefinitionID{1}, Kind: journal.KindFlow, Name: "nap",
		Source: []byte("pawl: 1\nname: nap\nsteps:\n  - {name: nap, sleep: 1h}\n"),
	}}
	doc, err := readFlow(req.Definition)
	if err == nil {
		req.Start, err = doc.Start(nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	req.WorkflowID = b.id
	s, err := b.engine.Start(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	return s.Run
}

// TestStartBesideAFlow checks a start whose workflow id a flow of the same database has had: it is refused while the
// run of the flow is open, whatever it says, and no longer.
func TestStartBesideAFlow(t *testing.T) {
	bubble(t, func(b *bed) {
		for range 2 { // the second time a workflow has had the id before
			id := b.runFlow()
			for _, conflict := range []string{"", "UseExisting", "TerminateExisting"} {
				err := b.start(options{"conflict": conflict})
				if err == nil || !strings.Contains(err.Error(), "is already running") ||
					!strings.Contains(err.Error(), id.String()) {
					t.Errorf("%q beside an open run: %v", conflict, err)
				}
			}
			<-time.After(2 * time.Hour)
			b.must([2]string{"start reuse=RejectDuplicate", ""})
			b.takeTask(options{})
			b.must([2]string{"answer complete", ""})
		}
	})
}

// TestRequestsForAFlow checks that a request which names a run of a flow finds nothing, as often as it is made.
func TestRequestsForAFlow(t *testing.T) {
	bubble(t, func(b *bed) {
		id := b.runFlow()
		named := &commonpb.WorkflowExecution{WorkflowId: b.id}
		both := &commonpb.WorkflowExecution{WorkflowId: b.id, RunId: id.String()}
		alone := &commonpb.WorkflowExecution{RunId: id.String()}
		for _, x := range []*commonpb.WorkflowExecution{named, both, alone, named, both, alone} {
			for name, ask := range requestsFor(b.server, x) {
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				if err := ask(ctx); !isNotFound(err) {
					b.Errorf("%s of %s: %v", name, x, err)
				}
				cancel()
			}
		}
		if r, err := b.engine.Inspect(b.Context(), id); err != nil || r.Phase.Closed() {
			t.Errorf("the run of the flow is %v: %v", r, err)
		}
	})
}

// ask returns a request to a method of the protocol.
func ask[In, Out any](method func(context.Context, In) (Out, error), in In) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := method(ctx, in)
		return err
	}
}

// requestsFor returns a request of each method that names a run.
func requestsFor(s *Frontend, x *commonpb.WorkflowExecution) map[string]func(context.Context) error {
	update := &updatepb.Request{
		Meta: &updatepb.Meta{UpdateId: "u"}, Input: &updatepb.Input{Name: "set"},
	}
	all := map[string]func(context.Context) error{
		"describe": ask(s.DescribeWorkflowExecution, &workflowservice.DescribeWorkflowExecutionRequest{Execution: x}),
		"history": ask(s.GetWorkflowExecutionHistory, &workflowservice.GetWorkflowExecutionHistoryRequest{
			Execution: x, WaitNewEvent: true,
		}),
		"query": ask(s.QueryWorkflow, &workflowservice.QueryWorkflowRequest{
			Execution: x, Query: &querypb.WorkflowQuery{QueryType: "q"},
		}),
		"signal": ask(s.SignalWorkflowExecution, &workflowservice.SignalWorkflowExecutionRequest{
			WorkflowExecution: x, SignalName: "go",
		}),
		"cancel": ask(s.RequestCancelWorkflowExecution, &workflowservice.RequestCancelWorkflowExecutionRequest{
			WorkflowExecution: x,
		}),
		"terminate": ask(s.TerminateWorkflowExecution, &workflowservice.TerminateWorkflowExecutionRequest{
			WorkflowExecution: x,
		}),
		"delete": ask(s.DeleteWorkflowExecution, &workflowservice.DeleteWorkflowExecutionRequest{
			WorkflowExecution: x,
		}),
		"update": ask(s.UpdateWorkflowExecution, &workflowservice.UpdateWorkflowExecutionRequest{
			WorkflowExecution: x, Request: update,
		}),
		"poll of an update": ask(s.PollWorkflowExecutionUpdate, &workflowservice.PollWorkflowExecutionUpdateRequest{
			UpdateRef: &updatepb.UpdateRef{WorkflowExecution: x, UpdateId: "u"},
		}),
		"answer": ask(s.RespondActivityTaskCompletedById, &workflowservice.RespondActivityTaskCompletedByIdRequest{
			WorkflowId: x.WorkflowId, RunId: x.RunId, ActivityId: "nap",
		}),
		"heartbeat": ask(s.RecordActivityTaskHeartbeatById, &workflowservice.RecordActivityTaskHeartbeatByIdRequest{
			WorkflowId: x.WorkflowId, RunId: x.RunId, ActivityId: "nap",
		}),
	}
	if x.WorkflowId != "" {
		all["reset"] = ask(s.ResetWorkflowExecution, &workflowservice.ResetWorkflowExecutionRequest{
			WorkflowExecution: x, WorkflowTaskFinishEventId: 4, RequestId: "r",
		})
	}
	return all
}
