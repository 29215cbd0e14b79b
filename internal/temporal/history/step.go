package history

import (
	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/temporal/convert"
	"github.com/pawl-dev/pawl/policy"
)

// Begun is what the history knows of a step: an activity, a timer, a child workflow, or what is sent to another run.
type Begun struct {
	ID        core.StepID
	Name      string
	Kind      core.StepKind
	Scheduled int64 // the id of the event that has begun it
	Closed    bool
	Cancel    bool // it was asked to cancel
	// One of these is what the worker has said of the step; the others are nil.
	Activity  *commandpb.ScheduleActivityTaskCommandAttributes
	Timer     *commandpb.StartTimerCommandAttributes
	Child     *commandpb.StartChildWorkflowExecutionCommandAttributes
	Signal    *commandpb.SignalExternalWorkflowExecutionCommandAttributes
	CancelRun *commandpb.RequestCancelExternalWorkflowExecutionCommandAttributes

	Run      string    // the child run that was started last
	RunBegan *Event    // the event that says that the child run is there; nil: it is not yet
	ReadyAt  core.Time // when the last attempt was ready
	Started  core.Time // the start of the last attempt; zero: it waits
	Attempt  int
	Worker   string          // the worker that has taken the last attempt
	Last     *policy.Failure // the failure of the last attempt that has ended; nil: it succeeded, or none has ended
	Details  []byte          // the details of the last heartbeat

	before    *policy.Failure // the failure of the attempt before
	cancelled int64           // the id of the event that has asked it to cancel
	result    *commonpb.Payloads
}

// told gives up what only the event has to tell that has begun the step.
func (s *Begun) told() {
	switch {
	case s.Activity != nil:
		s.Activity.Input, s.Activity.Header = nil, nil
	case s.Child != nil:
		s.Child.Input, s.Child.Memo, s.Child.SearchAttributes = nil, nil, nil
	case s.Signal != nil:
		s.Signal.Input, s.Signal.Header = nil, nil
	}
}

// Step returns a step by its number; nil: there is none.
func (f *Fold) Step(id core.StepID) *Begun {
	if int(id) >= len(f.steps) {
		return nil
	}
	return f.steps[id]
}

// Steps returns how many steps there are.
func (f *Fold) Steps() int { return len(f.steps) }

// last returns the newest step that fits; nil: none does.
func (f *Fold) last(fits func(*Begun) bool) *Begun {
	for i := len(f.steps) - 1; i >= 0; i-- {
		if fits(f.steps[i]) {
			return f.steps[i]
		}
	}
	return nil
}

// ActivityOf returns the newest activity of an id; nil: there is none.
func (f *Fold) ActivityOf(id string) *Begun {
	return f.last(func(s *Begun) bool { return s.Activity != nil && s.Activity.ActivityId == id })
}

// TimerOf returns the newest timer of an id; nil: there is none.
func (f *Fold) TimerOf(id string) *Begun {
	return f.last(func(s *Begun) bool { return s.Timer != nil && s.Timer.TimerId == id })
}

// ScheduledAt returns the activity whose event has an id; nil: there is none.
func (f *Fold) ScheduledAt(event int64) *Begun {
	return f.last(func(s *Begun) bool { return s.Activity != nil && s.Scheduled == event })
}

// record folds a record.
func (f *Fold) record(rec core.Record) {
	switch r := rec.(type) {
	case core.RunCreated:
		f.created(r)
	case core.RunStarted:
		f.begun = true
		f.need(len(f.tail))
	case core.BodyAnswered:
		f.answered(r)
	case core.StepOmitted:
		f.steps = append(f.steps, &Begun{ID: core.StepID(len(f.steps)), Closed: true})
	case core.SignalKept:
		if !r.Taken {
			f.signal(r)
		}
	case core.Operated:
		if r.Op == core.OpTerminate {
			f.terminate = &r
		}
		if (r.Op == core.OpCancel || r.Op == core.OpCancelGracefully) && !f.Cancelled {
			f.Cancelled = true
			f.cancelAsked(r)
		}
	case core.PauseBegan, core.PauseEnded:
		_, f.paused = rec.(core.PauseBegan)
	case core.RunClosing:
		f.close = &r
	case core.RunEnded:
		f.ended(r)
	default:
		f.recordOfStep(rec)
	}
}

// recordOfStep folds what happens to a step. What happens to its attempts is told when it ends.
func (f *Fold) recordOfStep(rec core.Record) {
	switch r := rec.(type) {
	case core.AttemptReady:
		s := f.steps[r.Step]
		s.Attempt++
		s.ReadyAt, s.Started = f.at, 0
	case core.AttemptStarted:
		s := f.steps[r.Step]
		s.Started, s.Worker = f.at, r.Worker
		if s.Child != nil {
			s.Run = r.Child.String()
		}
	case core.StepChildBegan:
		childBegan(f, f.steps[r.Step])
	case core.AttemptBeat:
		if r.Details != nil {
			f.steps[r.Step].Details = r.Details
		}
	case core.AttemptEnded:
		s := f.steps[r.Step]
		if r.Details != nil {
			s.Details = r.Details
		}
		if r.Retry {
			s.Started = 0
		}
		if r.Failure != nil && r.Failure.Kind == policy.KindLost {
			s.Attempt-- // it counts for nothing
			return
		}
		s.before, s.Last = s.Last, r.Failure
	case core.StepReset:
		if s := f.steps[r.Step]; r.Budget { // the run was reset: the work of the step begins again
			s.Attempt, s.Started, s.before, s.Last, s.Cancel = 0, 0, nil, nil, false
		}
	case core.StepCancelAsked:
		f.steps[r.Step].Cancel = true
	case core.StepEnded:
		s := f.steps[r.Step]
		if !s.Closed && !f.ends && f.close == nil {
			f.stepEnded(s, r)
		}
		s.Closed = true
	default:
	}
}

func (f *Fold) stepBegan(r core.StepBegan) *Begun {
	s := &Begun{ID: core.StepID(len(f.steps)), Name: r.Spec.Name, Kind: r.Spec.Kind, ReadyAt: f.at}
	switch s.Kind {
	case core.KindTask:
		s.Attempt = 1
		s.Activity = &commandpb.ScheduleActivityTaskCommandAttributes{}
		_ = proto.Unmarshal(r.Spec.Input, s.Activity) // it was marshalled here
	case core.KindChild:
		s.Child = &commandpb.StartChildWorkflowExecutionCommandAttributes{}
		_ = proto.Unmarshal(r.Spec.Input, s.Child)
	case core.KindSend:
		s.sends(r.Spec)
	default:
		s.Timer = &commandpb.StartTimerCommandAttributes{}
		_ = proto.Unmarshal(r.Spec.Input, s.Timer)
	}
	f.steps = append(f.steps, s)
	return s
}

// stepEnded tells the end of a step.
func (f *Fold) stepEnded(s *Begun, r core.StepEnded) {
	switch {
	case s.Activity != nil:
		f.activityEnded(s, r)
		return
	case s.Child != nil:
		childEnded(f, s, r)
		return
	case s.Kind == core.KindSend:
		sendEnded(f, s, r)
		return
	case r.Phase == core.StepCancelled && r.Reason == policy.ReasonCancelled:
		return // the worker has cancelled it
	}
	e := event(enumspb.EVENT_TYPE_TIMER_FIRED, f.at)
	e.Attributes = &historypb.HistoryEvent_TimerFiredEventAttributes{
		TimerFiredEventAttributes: &historypb.TimerFiredEventAttributes{
			TimerId: s.Timer.TimerId, StartedEventId: s.Scheduled,
		},
	}
	f.happened(s.ID, e)
}

// activityEnded tells the last attempt of an activity, if a worker had it, and how the activity has ended.
func (f *Fold) activityEnded(s *Begun, r core.StepEnded) {
	end := f.activityEnd(s, r)
	if s.Started == 0 {
		f.happened(s.ID, end)
		return
	}
	start := event(enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, s.Started)
	start.Attributes = &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{
		ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{
			ScheduledEventId: s.Scheduled, Identity: s.Worker, Attempt: int32(s.Attempt),
			LastFailure: convert.Failure(s.before), RequestId: s.Name,
		},
	}
	f.happened(s.ID, start, end)
}

// activityEnd returns the event that tells how an activity has ended.
func (f *Fold) activityEnd(s *Begun, r core.StepEnded) *Event {
	timedOut := r.Failure != nil && r.Failure.Kind == policy.KindTimeout
	lastWorked := s.Last != nil && s.Last.Kind != policy.KindTimeout // its own failure is told
	switch {
	case r.Phase == core.StepSucceeded, r.Phase == core.StepSkipped:
		return f.activityCompleted(s, r)
	case r.Phase == core.StepCancelled:
		return f.activityCancelled(s, r)
	case timedOut && !(r.Reason == policy.ReasonNoTimeLeft && lastWorked):
		return f.activityTimedOut(s, r)
	}
	failure := r.Failure
	if r.Reason == policy.ReasonNoTimeLeft {
		failure = s.Last
	}
	e := event(enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, f.at)
	e.Attributes = &historypb.HistoryEvent_ActivityTaskFailedEventAttributes{
		ActivityTaskFailedEventAttributes: &historypb.ActivityTaskFailedEventAttributes{
			Failure: convert.Failure(failure), ScheduledEventId: s.Scheduled, Identity: s.Worker,
			RetryState: convert.RetryState(r.Reason),
		},
	}
	return e
}

func (f *Fold) activityCompleted(s *Begun, r core.StepEnded) *Event {
	s.result = convert.Payloads(r.Output)
	if r.Reason == policy.ReasonOperator {
		s.result = convert.Given(r.Output)
	}
	e := event(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, f.at)
	e.Attributes = &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
		ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{
			Result: s.result, ScheduledEventId: s.Scheduled, Identity: s.Worker,
		},
	}
	return e
}

func (f *Fold) activityCancelled(s *Begun, r core.StepEnded) *Event {
	e := event(enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED, f.at)
	e.Attributes = &historypb.HistoryEvent_ActivityTaskCanceledEventAttributes{
		ActivityTaskCanceledEventAttributes: &historypb.ActivityTaskCanceledEventAttributes{
			Details:          convert.Failure(r.Failure).GetCanceledFailureInfo().GetDetails(),
			ScheduledEventId: s.Scheduled, Identity: s.Worker, LatestCancelRequestedEventId: s.cancelled,
		},
	}
	return e
}

// noTimeLeft is what the protocol's own server says of an activity that has no time for another attempt.
const noTimeLeft = "Not enough time to schedule next retry before activity ScheduleToClose timeout, " +
	"giving up retrying"

func (f *Fold) activityTimedOut(s *Begun, r core.StepEnded) *Event {
	failure := convert.Failure(r.Failure)
	if info := failure.GetTimeoutFailureInfo(); info != nil {
		info.LastHeartbeatDetails = convert.Payloads(s.Details)
		switch {
		case r.Reason == policy.ReasonNoTimeLeft:
			failure.Message, info.TimeoutType = noTimeLeft, enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE
		case info.TimeoutType == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE && s.Started == 0 && s.Attempt == 1:
			// Both limits are equally long there, and the first one is named.
			info.TimeoutType = enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
			failure.Message = "activity ScheduleToStart timeout"
		}
	}
	if failure.Cause == nil {
		failure.Cause = convert.Failure(s.before)
	}
	state := convert.RetryState(r.Reason)
	perAttempt := r.Failure.Limit == policy.LimitStartToClose || r.Failure.Limit == policy.LimitHeartbeat
	if perAttempt && r.Reason == policy.ReasonTimeoutNotRetryable { // its type is among those that are not retried
		state = enumspb.RETRY_STATE_NON_RETRYABLE_FAILURE
	}
	e := event(enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, f.at)
	e.Attributes = &historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes{
		ActivityTaskTimedOutEventAttributes: &historypb.ActivityTaskTimedOutEventAttributes{
			Failure: failure, ScheduledEventId: s.Scheduled, RetryState: state,
		},
	}
	return e
}
