package temporal

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/history"
	"github.com/pawl-dev/pawl/internal/temporal/tasks"
)

const (
	// readFor is how long a reader waits for more of a history.
	readFor = 20 * time.Second
	// pageEvents and pageBytes bound one answer.
	pageEvents = 1000
	pageBytes  = 3 << 20
)

// page is where a reader of a history is.
type page struct {
	run  core.RunID
	from int // events that were read
}

// pageForm is the first byte of a token of a page.
const pageForm = 'h'

func (p page) bytes() []byte {
	return binary.AppendUvarint(append([]byte{pageForm}, p.run[:]...), uint64(p.from))
}

// readPage reads the token of a page; false: it is none.
func readPage(b []byte) (p page, ok bool) {
	const fixed = 1 + len(p.run)
	if len(b) <= fixed || b[0] != pageForm {
		return p, false
	}
	copy(p.run[:], b[1:])
	from, n := binary.Uvarint(b[fixed:])
	if n <= 0 || from > 1<<40 {
		return p, false
	}
	p.from = int(from)
	return p, fixed+n == len(b)
}

// GetWorkflowExecutionHistory returns the history of a run, page by page. It waits for more of it, or for its last
// event, if it is asked to.
func (s *Frontend) GetWorkflowExecutionHistory(
	ctx context.Context, q *workflowservice.GetWorkflowExecutionHistoryRequest,
) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	var at page
	if len(q.NextPageToken) > 0 {
		var ok bool
		if at, ok = readPage(q.NextPageToken); !ok {
			return nil, serviceerror.NewInvalidArgument("Invalid NextPageToken.")
		}
	} else {
		id, err := s.find(ctx, q.Execution)
		if err != nil {
			return nil, err
		}
		at.run = id
	}
	name := &commonpb.WorkflowExecution{WorkflowId: q.Execution.GetWorkflowId(), RunId: at.run.String()}
	wait := time.NewTimer(tasks.WaitFor(ctx, readFor))
	defer wait.Stop()
	for {
		r, err := s.use(ctx, name)
		if err != nil {
			return nil, err
		}
		out, done := answerOf(r, q, at)
		if done {
			r.Release()
			return out, nil
		}
		changed := r.Watch()
		r.Release()
		over := false
		select {
		case <-changed:
		case <-wait.C:
			over = true
		case <-ctx.Done():
		}
		r.Unwatch()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if over {
			return out, nil
		}
	}
}

// answerOf returns what there is for a reader, and whether that is an answer. If it is not, it is the answer to one who
// does not wait any longer.
func answerOf(
	r *tasks.OfRun, q *workflowservice.GetWorkflowExecutionHistoryRequest, at page,
) (out *workflowservice.GetWorkflowExecutionHistoryResponse, done bool) {
	closed := r.Fold.Closed != 0
	out = &workflowservice.GetWorkflowExecutionHistoryResponse{History: &historypb.History{}}
	if q.HistoryEventFilterType == enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT {
		if closed || !q.WaitNewEvent {
			events := r.Page(r.Fold.Final()-1, math.MaxInt)
			out.History.Events = events[len(events)-1:]
			return out, true
		}
		out.NextPageToken = at.bytes()
		return out, false
	}
	most := pageEvents
	if n := int(q.MaximumPageSize); n > 0 {
		most = min(n, most)
	}
	rest := r.Page(at.from, most+1) // one more says that another page follows
	n, size := 0, 0
	for n < min(len(rest), most) && (n == 0 || size < pageBytes) {
		size += proto.Size(rest[n])
		n++
	}
	out.History.Events = rest[:n]
	if n < len(rest) || !closed && q.WaitNewEvent {
		at.from += n
		out.NextPageToken = at.bytes()
	}
	return out, n > 0 || closed || !q.WaitNewEvent
}

// GetWorkflowExecutionHistoryReverse returns the history of a run, the last event first, page by page.
func (s *Frontend) GetWorkflowExecutionHistoryReverse(
	ctx context.Context, q *workflowservice.GetWorkflowExecutionHistoryReverseRequest,
) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	name, left := q.Execution, -1
	if len(q.NextPageToken) > 0 {
		at, ok := readPage(q.NextPageToken)
		if !ok || at.from == 0 {
			return nil, serviceerror.NewInvalidArgument("Invalid NextPageToken.")
		}
		name = &commonpb.WorkflowExecution{WorkflowId: q.Execution.GetWorkflowId(), RunId: at.run.String()}
		left = at.from
	}
	r, err := s.use(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	if all := r.Visible(); left < 0 || left > all {
		left = all
	}
	most := pageEvents
	if n := int(q.MaximumPageSize); n > 0 {
		most = min(n, most)
	}
	from := max(left-most, 0)
	events := r.Page(from, left-from)[:left-from]
	n, size := len(events), 0
	for n > 0 && (n == len(events) || size < pageBytes) {
		n--
		size += proto.Size(events[n])
	}
	out := &workflowservice.GetWorkflowExecutionHistoryReverseResponse{
		History: &historypb.History{Events: slices.Clone(events[n:])},
	}
	slices.Reverse(out.History.Events)
	if from += n; from > 0 {
		out.NextPageToken = page{r.Fold.Run, from}.bytes()
	}
	return out, nil
}

// DescribeWorkflowExecution says how a run is doing.
func (s *Frontend) DescribeWorkflowExecution(
	ctx context.Context, q *workflowservice.DescribeWorkflowExecutionRequest,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	r, err := s.use(ctx, q.Execution)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	state, err := s.engine.Inspect(ctx, r.Fold.Run)
	if err != nil {
		return nil, err
	}
	start := r.Fold.Start()
	out := &workflowservice.DescribeWorkflowExecutionResponse{
		ExecutionConfig: &workflowpb.WorkflowExecutionConfig{
			TaskQueue: start.TaskQueue, WorkflowExecutionTimeout: start.WorkflowExecutionTimeout,
			WorkflowRunTimeout: start.WorkflowRunTimeout, UserMetadata: start.UserMetadata,
			DefaultWorkflowTaskTimeout: durationpb.New(r.Fold.TaskTimeout()),
		},
		WorkflowExecutionInfo: infoOf(r), WorkflowExtendedInfo: &workflowpb.WorkflowExecutionExtendedInfo{
			CancelRequested: r.Fold.Cancelled, ExecutionExpirationTime: instant(state.Execution.At),
			RunExpirationTime: instant(state.Deadline.At),
		},
	}
	for i := range state.Steps {
		switch one := r.Fold.Step(core.StepID(i)); {
		case one == nil || state.Steps[i].Phase.Closed():
		case one.Activity != nil:
			out.PendingActivities = append(out.PendingActivities, pendingOf(start, one, &state.Steps[i]))
		case one.Child != nil && one.RunBegan != nil:
			out.PendingChildren = append(out.PendingChildren, &workflowpb.PendingChildExecutionInfo{
				WorkflowId: one.Child.WorkflowId, RunId: one.Run, InitiatedId: one.Scheduled,
				WorkflowTypeName: one.Child.GetWorkflowType().GetName(), ParentClosePolicy: one.Child.ParentClosePolicy,
			})
		}
	}
	if attempt, begun, due := r.Pending(); due && r.Fold.Closed == 0 {
		out.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{
			State: enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, Attempt: attempt,
		}
		if begun {
			out.PendingWorkflowTask.State = enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED
		}
	}
	return out, nil
}

// instant returns an instant as the protocol has it; nil: there is none.
func instant(at core.Time) *timestamppb.Timestamp {
	if at == 0 {
		return nil
	}
	return stamp(at)
}

// infoOf returns what lists say of a run.
func infoOf(r *tasks.OfRun) *workflowpb.WorkflowExecutionInfo {
	f := r.Fold
	events, size := f.Len()
	parent, root := f.Family()
	out := &workflowpb.WorkflowExecutionInfo{
		Execution: r.Execution(), ParentExecution: parent, RootExecution: root,
		Type: f.Start().WorkflowType, Status: f.Status,
		StartTime: stamp(f.Created), ExecutionTime: timestamppb.New(f.Began()), CloseTime: instant(f.Closed),
		HistoryLength: int64(events), HistorySizeBytes: int64(size), TaskQueue: f.Start().GetTaskQueue().GetName(),
		FirstRunId: f.First().String(), Memo: f.Memo(), SearchAttributes: f.Search(), Priority: f.Start().Priority,
	}
	if parent != nil {
		out.ParentNamespaceId = namespaceID(r.Namespace())
	}
	if out.Memo == nil { // an SDK takes nil amiss
		out.Memo = &commonpb.Memo{}
	}
	if out.SearchAttributes == nil {
		out.SearchAttributes = &commonpb.SearchAttributes{}
	}
	if f.Closed != 0 {
		out.ExecutionDuration = durationpb.New(f.Closed.Std().Sub(f.Began()))
	}
	return out
}

// pendingOf says how an open activity is doing.
func pendingOf(
	start *workflowservice.StartWorkflowExecutionRequest, one *history.Begun, s *core.Step,
) *workflowpb.PendingActivityInfo {
	a := one.Activity
	out := &workflowpb.PendingActivityInfo{
		ActivityId: a.ActivityId, ActivityType: a.ActivityType, Attempt: int32(s.Counted),
		MaximumAttempts: a.GetRetryPolicy().GetMaximumAttempts(), LastFailure: convert.Failure(s.Failure),
		LastWorkerIdentity: one.Worker, HeartbeatDetails: convert.Payloads(s.Details),
		Priority:      convert.Priority(start.GetPriority(), a.Priority),
		ScheduledTime: stamp(s.ReadyAt), ExpirationTime: instant(s.ScheduleToClose),
		LastHeartbeatTime: instant(s.BeatAt), State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED,
	}
	switch {
	case s.Phase == core.StepRunning && s.CancelAsked:
		out.State = enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
	case s.Phase == core.StepRunning:
		out.State = enumspb.PENDING_ACTIVITY_STATE_STARTED
	}
	if s.Phase == core.StepRunning {
		out.LastStartedTime = stamp(s.Started)
	}
	if s.Phase == core.StepBackingOff {
		out.Attempt++
		out.NextAttemptScheduleTime = stamp(s.NextAt)
		out.CurrentRetryInterval = durationpb.New(time.Duration(s.Delay) * time.Millisecond)
	}
	return out
}
