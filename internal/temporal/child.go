package temporal

import (
	"encoding/json"
	"strconv"
	"strings"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/history"
	"github.com/pawl-dev/pawl/policy"
)

// definitionOf returns the definition of a workflow type.
func definitionOf(name string) journal.Definition {
	return journal.Definition{
		ID: history.DefinitionID(name), Kind: history.Kind, Name: name, Source: []byte(name),
	}
}

// childStart is the payload of a child step.
type childStart struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Start []byte          `json:"start"`
	Close core.CloseChild `json:"close"`
	Reuse core.Reuse      `json:"reuse"`
}

// childOf returns the payload of a step that starts a child workflow. The child is told the run above it, and the one
// at the top.
func childOf(namespace string, r *core.Run, s *core.Step) ([]byte, *policy.Failure) {
	a := &commandpb.StartChildWorkflowExecutionCommandAttributes{}
	if err := proto.Unmarshal(s.Spec.Input, a); err != nil {
		return nil, unreadable(err)
	}
	own := &workflowservice.StartWorkflowExecutionRequest{}
	if err := proto.Unmarshal(r.Input, own); err != nil {
		return nil, unreadable(err)
	}
	start := convert.ChildStart(a, own)
	self := &commonpb.WorkflowExecution{WorkflowId: r.WorkflowID, RunId: r.ID.String()}
	told := &historypb.WorkflowExecutionStartedEventAttributes{
		ParentWorkflowNamespace: namespace, ParentWorkflowExecution: self, ParentInitiatedEventId: initiatedBy(s),
		RootWorkflowExecution: self,
	}
	if root := convert.Told(own).RootWorkflowExecution; root != nil {
		told.RootWorkflowExecution = root
	}
	if err := convert.Tell(start, told); err != nil {
		return nil, unreadable(err)
	}
	input, err := proto.Marshal(start)
	if err != nil {
		return nil, unreadable(err)
	}
	out, err := json.Marshal(childStart{
		start.WorkflowType.GetName(), a.WorkflowId, input, convert.CloseChild(a.ParentClosePolicy),
		convert.Reuse(a.WorkflowIdReusePolicy),
	})
	if err != nil {
		return nil, unreadable(err)
	}
	return out, nil
}

// childID returns the workflow id of a child.
func childID(s *core.Step) string {
	a := &commandpb.StartChildWorkflowExecutionCommandAttributes{}
	_ = proto.Unmarshal(s.Spec.Input, a) // it was marshalled here
	return a.WorkflowId
}

// initiatedBy returns the id of the event that has begun a step. Its name ends with it.
func initiatedBy(s *core.Step) int64 {
	id, _ := strconv.ParseInt(s.Spec.Name[strings.LastIndexByte(s.Spec.Name, '#')+1:], 10, 64)
	return id
}

// readChild reads the payload of a child step.
func readChild(_ core.DefinitionID, payload []byte) (engine.Child, error) {
	var c childStart
	if err := json.Unmarshal(payload, &c); err != nil {
		return engine.Child{}, err
	}
	return engine.Child{
		Definition: definitionOf(c.Type), Input: c.Start, WorkflowID: c.ID, Close: c.Close, Reuse: c.Reuse,
	}, nil
}
