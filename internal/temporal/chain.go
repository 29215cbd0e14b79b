package temporal

import (
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
)

// successor returns what follows a workflow as new: one of the type that its input names.
func successor(input []byte) core.Successor {
	start := &workflowservice.StartWorkflowExecutionRequest{}
	_ = proto.Unmarshal(input, start) // it was marshalled here
	d := definitionOf(start.GetWorkflowType().GetName())
	return core.Successor{
		Definition: core.Store{ID: d.ID, Kind: d.Kind, Name: d.Name, Source: d.Source},
		Delay:      start.GetWorkflowStartDelay().AsDuration(),
	}
}
