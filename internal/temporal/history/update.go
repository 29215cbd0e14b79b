package history

import (
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	updatepb "go.temporal.io/api/update/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/core"
)

// KnownUpdate is what the history knows of an update.
type KnownUpdate struct {
	Request  *updatepb.Request
	Accepted int64             // the id of the event that says so; zero: it was admitted by a reset, and waits
	Outcome  *updatepb.Outcome // nil: it is not known yet
}

// Update returns the update of an id; nil: the workflow has accepted none, and none was admitted by a reset.
func (f *Fold) Update(id string) *KnownUpdate { return f.updates[id] }

// Updates returns how many updates there are, and how many of them have no outcome yet.
func (f *Fold) Updates() (all, open int) { return len(f.updates), len(f.updates) - f.settled }

// Message reads the body of a message of the update protocol: an acceptance, a rejection or a response; nil: it is
// another one, or cannot be read.
func Message(m *protocolpb.Message) proto.Message {
	body, err := m.GetBody().UnmarshalNew()
	if err != nil {
		return nil
	}
	switch body.(type) {
	case *updatepb.Acceptance, *updatepb.Rejection, *updatepb.Response:
		return body
	default:
		return nil
	}
}

// Told reports whether a message becomes an event. Rejections leave no trace in the history.
func Told(m *protocolpb.Message) bool {
	switch Message(m).(type) {
	case *updatepb.Acceptance, *updatepb.Response:
		return true
	default:
		return false
	}
}

// messages has the messages of an answer that were not told yet, by their ids.
type messages map[string]*protocolpb.Message

func messagesOf(all []*protocolpb.Message) messages {
	out := messages{}
	for _, m := range all {
		out[m.GetId()] = m
	}
	return out
}

// take returns the message of an id, once; nil: there is none.
func (ms messages) take(id string) *protocolpb.Message {
	m := ms[id]
	delete(ms, id)
	return m
}

// message tells what a worker has said of an update.
func (f *Fold) message(m *protocolpb.Message) {
	switch body := Message(m).(type) {
	case *updatepb.Acceptance:
		f.accepted(m.ProtocolInstanceId, body)
	case *updatepb.Response:
		f.responded(m.ProtocolInstanceId, body)
	case *updatepb.Rejection: // it was admitted by a reset: others are not kept
		f.settleUpdate(m.ProtocolInstanceId, &updatepb.Outcome{
			Value: &updatepb.Outcome_Failure{Failure: body.Failure},
		})
	}
}

// admitted tells that a reset has admitted an update which another run had accepted.
func (f *Fold) admitted(request *updatepb.Request) {
	if f.updates == nil {
		f.updates = map[string]*KnownUpdate{}
	}
	f.updates[request.GetMeta().GetUpdateId()] = &KnownUpdate{Request: request}
	e := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED, f.at)
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateAdmittedEventAttributes{
		WorkflowExecutionUpdateAdmittedEventAttributes: &historypb.WorkflowExecutionUpdateAdmittedEventAttributes{
			Request: request, Origin: enumspb.UPDATE_ADMITTED_EVENT_ORIGIN_REAPPLY,
		},
	}
	f.happened(core.NoStep, e)
}

func (f *Fold) accepted(id string, a *updatepb.Acceptance) {
	if f.updates == nil {
		f.updates = map[string]*KnownUpdate{}
	}
	request := a.AcceptedRequest
	u := f.updates[id]
	if u == nil {
		u = &KnownUpdate{Request: request}
		f.updates[id] = u
	} else {
		request = nil // the event with which it was admitted has it
	}
	e := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, f.at)
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{
		WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{
			ProtocolInstanceId: id, AcceptedRequestMessageId: a.AcceptedRequestMessageId,
			AcceptedRequestSequencingEventId: a.AcceptedRequestSequencingEventId, AcceptedRequest: request,
		},
	}
	u.Accepted = f.add(e).EventId
}

func (f *Fold) responded(id string, r *updatepb.Response) {
	u := f.updates[id]
	if u == nil {
		return // such an answer is refused
	}
	e := event(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED, f.at)
	e.Attributes = &historypb.HistoryEvent_WorkflowExecutionUpdateCompletedEventAttributes{
		WorkflowExecutionUpdateCompletedEventAttributes: &historypb.WorkflowExecutionUpdateCompletedEventAttributes{
			Meta: r.Meta, AcceptedEventId: u.Accepted, Outcome: r.Outcome,
		},
	}
	f.add(e)
	f.settleUpdate(id, r.Outcome)
}

func (f *Fold) settleUpdate(id string, outcome *updatepb.Outcome) {
	if u := f.updates[id]; u != nil && u.Outcome == nil {
		u.Outcome = outcome
		f.settled++
	}
}
