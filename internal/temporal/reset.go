package temporal

import (
	"context"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// ResetWorkflowExecution makes a run that begins with what another one was up to a workflow task, and ends the open run
// of the workflow id.
func (s *Frontend) ResetWorkflowExecution(
	ctx context.Context, q *workflowservice.ResetWorkflowExecutionRequest,
) (*workflowservice.ResetWorkflowExecutionResponse, error) {
	if len(q.PostResetOperations) > 0 {
		return nil, serviceerror.NewUnimplemented("operations after a reset are not supported")
	}
	var err error
	for range 3 { // something may happen to the run meanwhile
		var id core.RunID
		if id, err = reset(ctx, s, q); err == nil {
			return &workflowservice.ResetWorkflowExecutionResponse{RunId: id.String()}, nil
		}
		if code := api.CodeOf(err); code != api.CodeStale && code != api.CodeRunClosed {
			return nil, err
		}
	}
	return nil, err
}

// Base is the run that is reset, and what the new one has of it.
type Base struct {
	id     core.RunID
	turn   history.Turn
	start  *workflowservice.StartWorkflowExecutionRequest
	chain  core.Chain
	later  []*history.Event      // those of its own history
	events []core.SignalReceived // those that came to the runs that have continued it
	next   core.RunID            // the run that continues it as new; zero: none does
}

func reset(
	ctx context.Context, s *Frontend, q *workflowservice.ResetWorkflowExecutionRequest,
) (id core.RunID, err error) {
	name := q.WorkflowExecution.GetWorkflowId()
	if name == "" {
		return id, serviceerror.NewInvalidArgument("WorkflowId is not set on request.")
	}
	current, err := s.use(ctx, &commonpb.WorkflowExecution{WorkflowId: name})
	if err != nil {
		return id, err
	}
	req := engine.ForkRequest{WorkflowID: name, Actor: actor(ctx, q.Identity), Reason: q.Reason}
	if current.Fold.Closed == 0 {
		req.Open, req.Seq = current.Fold.Run, current.Fold.Entries
	}
	known, started := current.Fold.Run, current.Fold.Start().RequestId
	current.Release()
	if q.RequestId != "" && started == q.RequestId {
		return known, nil // the request was made before
	}
	b, err := baseOf(ctx, s, q)
	if err != nil {
		return id, err
	}
	entries, err := s.engine.Entries(ctx, b.id, 0)
	if err != nil {
		return id, err
	}
	if err := b.addLater(ctx, s, q); err != nil {
		return id, err
	}
	if err := b.Fork(&req, entries, q); err != nil {
		return id, err
	}
	return s.engine.Fork(ctx, req)
}

// Fork completes the request that makes the new run. It names the run that is open already. The entries are those of
// the base. Errors: the base cannot be reset there.
func (b *Base) Fork(
	req *engine.ForkRequest, entries []core.Entry, q *workflowservice.ResetWorkflowExecutionRequest,
) (err error) {
	if len(entries) < b.turn.Seen {
		return serviceerror.NewUnavailable("the run cannot be read")
	}
	req.Entries = slices.Clone(entries[:b.turn.Seen])
	if err := b.adopt(req.Entries, q); err != nil {
		return err
	}
	if req.Input, err = b.forked(q); err != nil {
		return err
	}
	steps := stepsOf(entries[:b.turn.Seen])
	req.Input.Told = toldOf(entries[b.turn.Seen:], steps)
	switch {
	case b.id == req.Open:
		req.Keep = len(steps)
	case slices.Contains(steps, openChild):
		return serviceerror.NewInvalidArgument("WorkflowResetter encountered pending child workflows.")
	case slices.Contains(steps, openSend): // its answer came to the run that had ended, and is lost
		return serviceerror.NewInvalidArgument("The run ended before it was known whether a signal or cancel request " +
			"to another workflow had arrived: reset it to a workflow task before that was sent.")
	}
	own, err := reapplied(b.later, b.turn.Started, entries[b.turn.Seen:], q)
	req.Input.Events = append(own, b.events...)
	return err
}

// baseOf looks where a run is to be reset.
func baseOf(
	ctx context.Context, s *Frontend, q *workflowservice.ResetWorkflowExecutionRequest,
) (*Base, error) {
	r, err := s.use(ctx, q.WorkflowExecution)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	return NewBase(r.Fold, r.Events(), q)
}

// NewBase returns the base of a reset of a run of which anybody may see these events. Errors: the request names no
// workflow task that was answered.
func NewBase(
	f *history.Fold, events []*history.Event, q *workflowservice.ResetWorkflowExecutionRequest,
) (*Base, error) {
	n, _ := f.Len()
	if id := q.WorkflowTaskFinishEventId; id <= 1 || id > int64(n) {
		return nil, serviceerror.NewInvalidArgument(
			"Workflow task finish ID must be > 1 && <= workflow last event ID.")
	}
	turn, ok := f.TurnAt(q.WorkflowTaskFinishEventId)
	if !ok {
		return nil, serviceerror.NewInvalidArgumentf("Can only reset workflow to event ID in range "+
			"[WorkflowTaskScheduled +1, WorkflowTaskStarted + 1]: %d", q.WorkflowTaskFinishEventId)
	}
	b := &Base{id: f.Run, turn: turn, chain: f.Chain, later: events}
	b.start = proto.Clone(f.Start()).(*workflowservice.StartWorkflowExecutionRequest)
	history.SetOrigin(b.start, f.Origin(), b.chain.Previous)
	b.chain.First = f.First()
	if f.Status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
		b.next = f.Next
	}
	return b, nil
}

// adopt makes the first entry that of the new run.
func (b *Base) adopt(entries []core.Entry, q *workflowservice.ResetWorkflowExecutionRequest) error {
	b.start.RequestId = q.RequestId
	input, err := proto.Marshal(b.start)
	if err != nil {
		return serviceerror.NewInvalidArgument(err.Error())
	}
	first := &entries[0]
	created, ok := first.Records[0].(core.RunCreated)
	if !ok {
		return serviceerror.NewInternal("the run does not begin with its creation")
	}
	created.Input, created.Chain, created.Key = input, b.chain, ""
	first.Records = slices.Clone(first.Records)
	first.Records[0] = created
	return nil
}

// forked returns what follows the entries of the other run: the task that is made again has failed.
func (b *Base) forked(q *workflowservice.ResetWorkflowExecutionRequest) (core.Forked, error) {
	m := history.Meta{Attempt: 1, Base: b.id.String(), Failed: &workflowservice.RespondWorkflowTaskFailedRequest{
		Cause: enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW, Identity: q.Identity,
		Failure: &failurepb.Failure{
			Message: q.Reason, Source: "Server", FailureInfo: &failurepb.Failure_ResetWorkflowFailureInfo{
				ResetWorkflowFailureInfo: &failurepb.ResetWorkflowFailureInfo{},
			},
		},
	}}
	meta, err := m.Encode()
	if err != nil {
		return core.Forked{}, serviceerror.NewInvalidArgument(err.Error())
	}
	return core.Forked{Answer: core.Answer{
		Turn: b.turn.Number, Seen: b.turn.Seen, Began: b.turn.Began, Meta: meta,
	}}, nil
}

// addLater adds the events of the runs that have continued the base as new.
func (b *Base) addLater(
	ctx context.Context, s *Frontend, q *workflowservice.ResetWorkflowExecutionRequest,
) error {
	for b.next != (core.RunID{}) {
		r, err := s.use(ctx, &commonpb.WorkflowExecution{RunId: b.next.String()})
		if isNotFound(err) || absent(err) {
			return nil // it was removed
		}
		if err != nil {
			return err
		}
		run, events := b.next, r.Events()
		b.next = core.RunID{}
		if r.Fold.Status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			b.next = r.Fold.Next
		}
		r.Release()
		entries, err := s.engine.Entries(ctx, run, 0)
		if err != nil {
			return err
		}
		more, err := reapplied(events, 0, entries, q)
		if err != nil {
			return err
		}
		b.events = append(b.events, more...)
	}
	return nil
}

// reapplied returns the events of a history behind an event that the new run is to hear of, too. The entries are those
// that have brought them: they know the ids of requests, so that none has an effect again.
func reapplied(
	events []*history.Event, behind int64, entries []core.Entry, q *workflowservice.ResetWorkflowExecutionRequest,
) ([]core.SignalReceived, error) {
	kind := q.ResetReapplyType
	without := func(x enumspb.ResetReapplyExcludeType) bool {
		return kind == enumspb.RESET_REAPPLY_TYPE_NONE || slices.Contains(q.ResetReapplyExcludeTypes, x)
	}
	noSignals := without(enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL)
	noUpdates := without(enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE) || kind == enumspb.RESET_REAPPLY_TYPE_SIGNAL
	var out []core.SignalReceived
	ids := idsOf(entries)
	for _, e := range events {
		if e.EventId <= behind {
			continue
		}
		id := ""
		if a := e.GetWorkflowExecutionSignaledEventAttributes(); len(ids) > 0 &&
			(a != nil || e.GetWorkflowExecutionUpdateAdmittedEventAttributes() != nil) {
			id, ids = ids[0], ids[1:]
		}
		var update *updatepb.Request
		if a := e.GetWorkflowExecutionUpdateAcceptedEventAttributes(); a != nil {
			update = a.AcceptedRequest
		}
		if a := e.GetWorkflowExecutionUpdateAdmittedEventAttributes(); a != nil {
			update = a.Request
		}
		a := e.GetWorkflowExecutionSignaledEventAttributes()
		switch {
		case update != nil && !noUpdates:
			name, payload, err := convert.Readmit(update)
			if err != nil {
				return nil, serviceerror.NewInvalidArgument(err.Error())
			}
			out = append(out, core.SignalReceived{
				Name: name, ID: update.GetMeta().GetUpdateId(), Payload: payload, Actor: update.GetMeta().GetIdentity(),
			})
		case a != nil && !noSignals:
			payload, err := convert.Signal(a.Input, a.Header)
			if err != nil {
				return nil, serviceerror.NewInvalidArgument(err.Error())
			}
			out = append(out, core.SignalReceived{Name: a.SignalName, ID: id, Payload: payload, Actor: a.Identity})
		}
	}
	return out, nil
}

// idsOf returns the ids of the requests that have brought the events of some entries, in their order.
func idsOf(entries []core.Entry) []string {
	var out []string
	for _, e := range entries {
		for _, rec := range e.Records {
			if kept, ok := rec.(core.SignalKept); ok && !kept.Taken {
				out = append(out, kept.ID)
			}
		}
	}
	return out
}

// stepState is what a reset has to know of a step.
type stepState uint8

const (
	otherStep stepState = iota
	openChild
	openSend
)

// stepsOf returns the steps of some entries, with the children and sends among them that are open.
func stepsOf(entries []core.Entry) []stepState {
	var out []stepState
	for _, e := range entries {
		for _, rec := range e.Records {
			switch rec := rec.(type) {
			case core.StepBegan:
				state := otherStep
				switch rec.Spec.Kind {
				case core.KindChild:
					state = openChild
				case core.KindSend:
					state = openSend
				default:
				}
				out = append(out, state)
			case core.StepOmitted:
				out = append(out, otherStep)
			case core.StepEnded:
				out[rec.Step] = otherStep
			default:
			}
		}
	}
	return out
}

// toldOf returns the records of later entries that say what has become of open children and sends, and notes which ones
// have ended. What ends with the run is not among them.
func toldOf(later []core.Entry, steps []stepState) []core.Record {
	var out []core.Record
	open := func(id core.StepID) bool { return int(id) < len(steps) && steps[id] != otherStep }
	for _, e := range later {
		if slices.ContainsFunc(e.Records, endsRun) {
			continue
		}
		for _, rec := range e.Records {
			switch r := rec.(type) {
			case core.StepChildBegan:
				if open(r.Step) {
					out = append(out, rec)
				}
			case core.AttemptEnded:
				if open(r.Step) {
					out = append(out, rec)
				}
			case core.StepEnded:
				if open(r.Step) {
					out = append(out, rec)
					steps[r.Step] = otherStep
				}
			default:
			}
		}
	}
	return out
}

func endsRun(rec core.Record) bool {
	switch rec.(type) {
	case core.RunClosing, core.RunEnded:
		return true
	default:
		return false
	}
}
