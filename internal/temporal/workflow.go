package temporal

import (
	"context"
	"errors"
	"strconv"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/tasks"
)

// find returns the run that a caller names: by its id, or the newest one of a workflow id.
func (s *Frontend) find(ctx context.Context, x *commonpb.WorkflowExecution) (core.RunID, error) {
	if x.GetRunId() != "" {
		id, err := core.ParseRunID(x.RunId)
		if err != nil {
			return id, serviceerror.NewInvalidArgument("Invalid RunId.")
		}
		return id, nil
	}
	if x.GetWorkflowId() == "" {
		return core.RunID{}, serviceerror.NewInvalidArgument("WorkflowId is not set on request.")
	}
	id, err := s.engine.Lookup(ctx, x.WorkflowId)
	if absent(err) {
		return id, noRun(x.WorkflowId)
	}
	return id, err
}

func noRun(id string) error { return serviceerror.NewNotFound("workflow not found for ID: " + id) }

// use returns the run that a caller names, as it is now. It has to be released where there is no error.
func (s *Frontend) use(ctx context.Context, x *commonpb.WorkflowExecution) (*tasks.OfRun, error) {
	for {
		r, err := s.useFound(ctx, x)
		if err != nil || r.Fold.Closed == 0 || x.GetRunId() != "" {
			return r, err
		}
		// The chain may have gone on since the run was found.
		if newest, err := s.find(ctx, x); err != nil || newest == r.Fold.Run {
			return r, nil //nolint:nilerr // the run was removed meanwhile: it is shown as it was
		}
		r.Release()
	}
}

// useFound returns the run that a caller's names mean at present, as it is now.
func (s *Frontend) useFound(ctx context.Context, x *commonpb.WorkflowExecution) (*tasks.OfRun, error) {
	id, err := s.find(ctx, x)
	if err != nil {
		return nil, err
	}
	r := s.tasks.Use(id)
	err = r.Refresh(ctx)
	if err == nil && x.GetWorkflowId() != "" && x.WorkflowId != r.Fold.WorkflowID {
		err = noRun(x.WorkflowId)
	}
	if err != nil {
		r.Release()
		if absent(err) {
			err = noRun(x.GetWorkflowId())
		}
		return nil, err
	}
	return r, nil
}

// errClosed answers who wants something of a run that has ended.
var errClosed = tasks.ErrEnded

// open returns the id of a run that a caller names, and that has not ended. first is the first run of its chain; empty:
// whichever it is.
func (s *Frontend) open(ctx context.Context, x *commonpb.WorkflowExecution, first string) (core.RunID, error) {
	r, err := s.use(ctx, x)
	if err != nil {
		return core.RunID{}, err
	}
	defer r.Release()
	switch {
	case r.Fold.Closed != 0:
		return core.RunID{}, errClosed
	case first != "" && first != r.Fold.First().String():
		return core.RunID{}, noRun(x.GetWorkflowId())
	}
	return r.Fold.Run, nil
}

// StartWorkflowExecution starts a run.
func (s *Frontend) StartWorkflowExecution(
	ctx context.Context, q *workflowservice.StartWorkflowExecutionRequest,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	if q.RequestEagerExecution {
		return startEagerly(ctx, s, q)
	}
	id, started, err := s.start(ctx, q)
	if err != nil {
		return nil, err
	}
	return answerStart(id, started), nil
}

func answerStart(id core.RunID, started bool) *workflowservice.StartWorkflowExecutionResponse {
	return &workflowservice.StartWorkflowExecutionResponse{
		RunId: id.String(), FirstExecutionRunId: id.String(), Started: started,
		Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
}

// startEagerly starts a run and gives its first task to the caller, who is a worker, too.
func startEagerly(
	ctx context.Context, s *Frontend, q *workflowservice.StartWorkflowExecutionRequest,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	r, id, started, err := startHeld(ctx, s, q)
	defer r.Release()
	if err != nil {
		return nil, err
	}
	out := answerStart(id, started)
	if started {
		out.EagerWorkflowTask = r.Begin(q.Identity)
	}
	return out, nil
}

const (
	// maxID bounds the ids and names that callers choose.
	maxID = 1000
	// reservedQueue begins the names of queues that Temporal's server has for itself.
	reservedQueue = "/_sys/"
)

// check refuses a start that makes no sense.
func check(q *workflowservice.StartWorkflowExecutionRequest) (core.RunRules, error) {
	rules, err := convert.Rules(q)
	wrong := ""
	switch {
	case q.WorkflowId == "":
		wrong = "WorkflowId is not set on request."
	case len(q.WorkflowId) > maxID:
		wrong = "WorkflowId length exceeds limit."
	case q.GetWorkflowType().GetName() == "":
		wrong = "WorkflowType is not set on request."
	case len(q.GetWorkflowType().GetName()) > maxID:
		wrong = "WorkflowType length exceeds limit."
	case q.GetTaskQueue().GetName() == "":
		wrong = "missing task queue name"
	case strings.HasPrefix(q.TaskQueue.Name, reservedQueue):
		wrong = "task queue name cannot start with reserved prefix " + reservedQueue
	case enumspb.WorkflowIdReusePolicy_name[int32(q.WorkflowIdReusePolicy)] == "":
		wrong = "unknown WorkflowIdReusePolicy " + strconv.Itoa(int(q.WorkflowIdReusePolicy))
	case enumspb.WorkflowIdConflictPolicy_name[int32(q.WorkflowIdConflictPolicy)] == "":
		wrong = "unknown WorkflowIdConflictPolicy " + strconv.Itoa(int(q.WorkflowIdConflictPolicy))
	case err != nil:
		wrong = err.Error()
	}
	if wrong != "" {
		return rules, serviceerror.NewInvalidArgument(wrong)
	}
	return rules, nil
}

// start starts a run, which knows some events from the beginning, or finds the one that the request has started, or
// that it is to use. It reports whether the run is new.
func (s *Frontend) start(
	ctx context.Context, q *workflowservice.StartWorkflowExecutionRequest, events ...core.Signal,
) (id core.RunID, started bool, err error) {
	return s.startAs(ctx, q, core.RunID{}, events...)
}

// startAs starts a run as start does. A new run has the id as, unless that is zero.
func (s *Frontend) startAs(
	ctx context.Context, q *workflowservice.StartWorkflowExecutionRequest, as core.RunID, events ...core.Signal,
) (id core.RunID, started bool, err error) {
	if _, err := check(q); err != nil {
		return id, false, err
	}
	kept := proto.Clone(convert.WithoutOwn(q)).(*workflowservice.StartWorkflowExecutionRequest)
	kept.Namespace = ""
	if kept.RetryPolicy != nil {
		kept.RetryPolicy = convert.FillRetry(kept.RetryPolicy)
	}
	input, err := proto.Marshal(kept)
	if err != nil {
		return id, false, serviceerror.NewInvalidArgument(err.Error())
	}
	req := engine.StartRequest{
		Start:      core.Start{WorkflowID: q.WorkflowId, Input: input, Actor: actor(ctx, q.Identity), Signals: events},
		Definition: definitionOf(q.WorkflowType.Name), RunID: as, Newest: new(core.RunID), // most ids are new
	}
	if delay := q.WorkflowStartDelay.AsDuration(); delay > 0 {
		req.At = s.clock.Now().Add(delay)
	}
	for range 4 { // the run that is in the way may end meanwhile
		made, err := s.engine.Start(ctx, req)
		if err == nil {
			return made.Run, true, nil
		}
		other, refused := errors.AsType[engine.AlreadyStarted](err)
		if !refused {
			return id, false, err
		}
		newest, uses, err := s.inTheWay(ctx, q, other)
		if err != nil || uses {
			return newest, false, err
		}
		req.Newest = &newest
		if terminates(q) {
			req.OnConflict = engine.ConflictReplace
		}
	}
	return id, false, serviceerror.NewUnavailable("runs of the workflow id begin and end at present")
}

// terminates reports whether a start ends the open run of its workflow id.
func terminates(q *workflowservice.StartWorkflowExecutionRequest) bool {
	const older = enumspb.WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING
	return q.WorkflowIdConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING ||
		q.WorkflowIdReusePolicy == older
}

// inTheWay looks at the run for which a start was refused. It reports whether the start uses it, and refuses a start
// that may not follow it.
func (s *Frontend) inTheWay(
	ctx context.Context, q *workflowservice.StartWorkflowExecutionRequest, other engine.AlreadyStarted,
) (id core.RunID, uses bool, err error) {
	id = other.Run
	if id == (core.RunID{}) {
		return id, false, nil
	}
	said, request := "is already running", ""
	r, err := s.use(ctx, &commonpb.WorkflowExecution{WorkflowId: q.WorkflowId, RunId: id.String()})
	switch {
	case isNotFound(err) && other.Open: // a run of no worker, which no start uses or ends
	case isNotFound(err):
		return id, false, nil
	case err != nil:
		return id, false, err
	default:
		defer r.Release()
		request = r.Fold.Start().RequestId
		closed := r.Fold.Closed != 0
		switch {
		case q.RequestId != "" && request == q.RequestId:
			return id, true, nil
		case closed && !mayFollow(q, r.Fold.Status):
			said = "already finished"
		case closed, terminates(q):
			return id, false, nil
		case q.WorkflowIdConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING:
			return id, true, nil
		}
	}
	return id, false, serviceerror.NewWorkflowExecutionAlreadyStarted(
		"Workflow execution "+said+". WorkflowId: "+q.WorkflowId+", RunId: "+id.String()+".", request, id.String())
}

// mayFollow reports whether a start may use the workflow id of a run that has ended so.
func mayFollow(q *workflowservice.StartWorkflowExecutionRequest, status enumspb.WorkflowExecutionStatus) bool {
	switch q.WorkflowIdReusePolicy {
	case enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE:
		return false
	case enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY:
		return status != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED &&
			status != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
	default:
		return true
	}
}

// SignalWorkflowExecution sends an event to a run.
func (s *Frontend) SignalWorkflowExecution(
	ctx context.Context, q *workflowservice.SignalWorkflowExecutionRequest,
) (*workflowservice.SignalWorkflowExecutionResponse, error) {
	if q.SignalName == "" {
		return nil, serviceerror.NewInvalidArgument("SignalName is not set on request.")
	}
	id, err := s.open(ctx, q.WorkflowExecution, "")
	if err != nil {
		return nil, err
	}
	payload, err := convert.Signal(q.Input, q.Header)
	if err != nil {
		return nil, serviceerror.NewInvalidArgument(err.Error())
	}
	err = s.give(ctx, q.WorkflowExecution, id, core.SignalReceived{
		Name: q.SignalName, ID: q.RequestId, Payload: payload, Actor: actor(ctx, q.Identity),
	})
	return &workflowservice.SignalWorkflowExecutionResponse{}, err
}

// give gives an event or an operation to a run: to the one of the run id that the caller said, or else to the newest
// one of the chain.
func (s *Frontend) give(ctx context.Context, x *commonpb.WorkflowExecution, id core.RunID, in core.Input) error {
	return ended(s.engine.Input(ctx, id, in, x.GetRunId() != ""))
}

// ended says in the protocol's words that a run has ended.
func ended(err error) error {
	if api.CodeOf(err) == api.CodeRunClosed {
		return errClosed
	}
	return err
}

// RequestCancelWorkflowExecution asks a run to cancel. Its worker decides what follows.
func (s *Frontend) RequestCancelWorkflowExecution(
	ctx context.Context, q *workflowservice.RequestCancelWorkflowExecutionRequest,
) (*workflowservice.RequestCancelWorkflowExecutionResponse, error) {
	id, err := s.open(ctx, q.WorkflowExecution, q.FirstExecutionRunId)
	if err == nil {
		err = s.give(ctx, q.WorkflowExecution, id, core.Operation{
			Op: core.OpCancel, Step: core.NoStep, Actor: actor(ctx, q.Identity), Reason: q.Reason,
		})
	}
	return &workflowservice.RequestCancelWorkflowExecutionResponse{}, err
}

// TerminateWorkflowExecution ends a run.
func (s *Frontend) TerminateWorkflowExecution(
	ctx context.Context, q *workflowservice.TerminateWorkflowExecutionRequest,
) (*workflowservice.TerminateWorkflowExecutionResponse, error) {
	id, err := s.open(ctx, q.WorkflowExecution, q.FirstExecutionRunId)
	if err == nil {
		err = s.give(ctx, q.WorkflowExecution, id, core.Operation{
			Op: core.OpTerminate, Step: core.NoStep, Actor: actor(ctx, q.Identity), Reason: q.Reason,
		})
	}
	return &workflowservice.TerminateWorkflowExecutionResponse{}, err
}
