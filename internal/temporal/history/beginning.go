package history

import (
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
)

// Beginning is how a run began.
type Beginning struct {
	Run        core.RunID
	WorkflowID string
	Chain      core.Chain
	Created    core.Time

	startAt core.Time // the end of its delay; zero: there is none
	expires core.Time // the end of its execution; zero: there is none
	input   []byte
	start   *workflowservice.StartWorkflowExecutionRequest // the input as it is read; nil: it is not at present
}

// Start returns the request that has started the run. It must not be changed.
func (b *Beginning) Start() *workflowservice.StartWorkflowExecutionRequest {
	if b.start == nil {
		b.start = &workflowservice.StartWorkflowExecutionRequest{}
		_ = proto.Unmarshal(b.input, b.start) // it was marshalled here
	}
	return b.start
}

// First returns the first run of the chain.
func (b *Beginning) First() core.RunID {
	if b.Chain.First != (core.RunID{}) {
		return b.Chain.First
	}
	return b.Run
}

// Began returns when the run began, or is to begin.
func (b *Beginning) Began() time.Time {
	if b.startAt != 0 {
		return b.startAt.Std()
	}
	return b.Created.Std()
}

// TaskTimeout returns how long a worker may take for a workflow task.
func (b *Beginning) TaskTimeout() time.Duration { return convert.TaskTimeout(b.Start()) }

// Family returns the run that has started this one as its child, nil if none has, and the one at the top.
func (b *Beginning) Family() (parent, root *commonpb.WorkflowExecution) {
	told := convert.Told(b.Start())
	root = told.RootWorkflowExecution
	if root == nil {
		root = &commonpb.WorkflowExecution{WorkflowId: b.WorkflowID, RunId: b.First().String()}
	}
	return told.ParentWorkflowExecution, root
}
