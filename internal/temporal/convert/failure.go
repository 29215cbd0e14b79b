package convert

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/naming"
	"github.com/pawl-dev/pawl/policy"
)

// storedFailure are the details of a failure that came as a message of the protocol: the whole message, as bytes.
type storedFailure struct {
	Temporal []byte `json:"temporal"`
}

// mostFailure bounds a failure, in bytes. In base64, with what is around it, it is as much as the engine keeps.
const mostFailure = 3<<19 - 32<<10

// tooLarge returns the failure that takes the place of one that is too large, as Temporal's server makes it.
func tooLarge(f *failurepb.Failure) *failurepb.Failure {
	return &failurepb.Failure{
		Message: "Failure exceeds size limit.", Source: "Server",
		FailureInfo: &failurepb.Failure_ServerFailureInfo{ServerFailureInfo: &failurepb.ServerFailureInfo{
			NonRetryable: true,
		}},
		Cause: &failurepb.Failure{
			Message: naming.Shorten(f.Message), Source: naming.Shorten(f.Source),
			StackTrace: naming.Shorten(f.StackTrace),
		},
	}
}

// FailureOf returns what the judge and people have to know of a failure. The message itself is kept in the details.
// Errors: the message has a text that is not UTF-8.
func FailureOf(f *failurepb.Failure) (*policy.Failure, error) {
	if proto.Size(f) > mostFailure {
		f = tooLarge(f)
	}
	out := &policy.Failure{Kind: policy.KindError, Message: naming.Shorten(f.GetMessage())}
	if f == nil {
		return out, nil
	}
	raw, err := proto.Marshal(f)
	if err != nil {
		return nil, err
	}
	if out.Details, err = json.Marshal(storedFailure{raw}); err != nil {
		return nil, err
	}
	switch info := f.FailureInfo.(type) {
	case *failurepb.Failure_ApplicationFailureInfo:
		a := info.ApplicationFailureInfo
		out.Type, out.NonRetryable = a.GetType(), a.GetNonRetryable()
		if a.GetNextRetryDelay() != nil {
			delay := a.NextRetryDelay.AsDuration()
			out.RetryAfter = &delay
		}
	case *failurepb.Failure_CanceledFailureInfo:
		out.Kind, out.Type = policy.KindCancelled, "cancelled"
	case *failurepb.Failure_TerminatedFailureInfo:
		out.NonRetryable = true
	case *failurepb.Failure_ServerFailureInfo:
		out.NonRetryable = info.ServerFailureInfo.GetNonRetryable()
	case *failurepb.Failure_TimeoutFailureInfo:
		kind := info.TimeoutFailureInfo.GetTimeoutType()
		out.Type = "TemporalTimeout:" + kind.String()
		out.NonRetryable = kind != enumspb.TIMEOUT_TYPE_START_TO_CLOSE && kind != enumspb.TIMEOUT_TYPE_HEARTBEAT
	}
	return out, nil
}

// Failure returns the message of a failure: the one that it came as, or else one that says the same. nil: there is
// none.
func Failure(f *policy.Failure) *failurepb.Failure {
	if f == nil {
		return nil
	}
	var of storedFailure
	if json.Unmarshal(f.Details, &of) == nil && of.Temporal != nil {
		out := &failurepb.Failure{}
		if proto.Unmarshal(of.Temporal, out) == nil {
			return out
		}
	}
	out := &failurepb.Failure{Message: f.Message, Cause: Failure(f.Cause)}
	switch f.Kind {
	case policy.KindTimeout:
		kind := TimeoutType(f.Limit)
		out.Message, out.Source = "activity "+kind.String()+" timeout", "Server"
		out.FailureInfo = &failurepb.Failure_TimeoutFailureInfo{
			TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: kind},
		}
	case policy.KindCancelled:
		out.FailureInfo = &failurepb.Failure_CanceledFailureInfo{
			CanceledFailureInfo: &failurepb.CanceledFailureInfo{},
		}
	default:
		out.FailureInfo = &failurepb.Failure_ApplicationFailureInfo{
			ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: f.Type, NonRetryable: f.NonRetryable},
		}
	}
	return out
}

// TimeoutType returns how the protocol names a limit of an activity. Limits of the run, and what only an operator can
// have set, count as schedule-to-close: they span all attempts.
func TimeoutType(l policy.LimitKind) enumspb.TimeoutType {
	switch l {
	case policy.LimitScheduleToStart:
		return enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
	case policy.LimitStartToClose, policy.LimitInactivity:
		return enumspb.TIMEOUT_TYPE_START_TO_CLOSE
	case policy.LimitHeartbeat:
		return enumspb.TIMEOUT_TYPE_HEARTBEAT
	default:
		return enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE
	}
}

// RetryState returns why no attempt follows.
func RetryState(r policy.Reason) enumspb.RetryState {
	switch r {
	case policy.ReasonAttemptsExhausted, policy.ReasonRetriesOff:
		return enumspb.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED
	case policy.ReasonNoTimeLeft, policy.ReasonTimeoutNotRetryable:
		return enumspb.RETRY_STATE_TIMEOUT
	case policy.ReasonCancelled:
		return enumspb.RETRY_STATE_CANCEL_REQUESTED
	default:
		return enumspb.RETRY_STATE_NON_RETRYABLE_FAILURE
	}
}

// Cancelled returns the failure of what has stopped since it was asked to. Errors: as of FailureOf.
func Cancelled(details *commonpb.Payloads) (*policy.Failure, error) {
	return FailureOf(&failurepb.Failure{
		Message: "cancelled", FailureInfo: &failurepb.Failure_CanceledFailureInfo{
			CanceledFailureInfo: &failurepb.CanceledFailureInfo{Details: details},
		},
	})
}
