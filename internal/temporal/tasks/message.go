package tasks

import (
	enumspb "go.temporal.io/api/enums/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pawl-dev/pawl/internal/temporal/history"
)

// said is what an answer says of updates.
type said struct {
	kept     []*protocolpb.Message // the messages that are recorded with the answer
	rejected map[*update]*updatepb.Outcome
	byID     map[string]*protocolpb.Message
	accepted map[string]bool // ids of updates that the answer accepts; true: it has their outcome, too
}

const causeUpdate = enumspb.WORKFLOW_TASK_FAILED_CAUSE_BAD_UPDATE_WORKFLOW_EXECUTION_MESSAGE

// said reads the messages of an answer, or says what is wrong with the first one that is.
func (r *OfRun) said(q *workflowservice.RespondWorkflowTaskCompletedRequest) (*said, *badCommand) {
	s := &said{
		rejected: map[*update]*updatepb.Outcome{}, byID: map[string]*protocolpb.Message{}, accepted: map[string]bool{},
	}
	for _, m := range q.Messages {
		if proto.Size(m) > largestCommand {
			return nil, bad(causeUpdate, "the message %q exceeds the size limit of 2 MiB", m.GetId())
		}
		if s.byID[m.GetId()] != nil {
			return nil, bad(causeUpdate, "two messages have the id %q", m.GetId())
		}
		s.byID[m.GetId()] = m
	}
	placed := map[string]bool{}
	for _, c := range q.Commands { // the history has them in this order
		a := c.GetProtocolMessageCommandAttributes()
		if a == nil {
			continue
		}
		if s.byID[a.MessageId] == nil || placed[a.MessageId] {
			return nil, bad(causeUpdate, "there is no message %q", a.MessageId)
		}
		placed[a.MessageId] = true
		if why := r.message(s, s.byID[a.MessageId]); why != nil {
			return nil, why
		}
	}
	for _, m := range q.Messages {
		if placed[m.Id] {
			continue
		}
		if why := r.message(s, m); why != nil {
			return nil, why
		}
	}
	return s, nil
}

// message reads one message.
func (r *OfRun) message(s *said, m *protocolpb.Message) *badCommand {
	id := m.ProtocolInstanceId
	known, waits := r.Fold.Update(id), r.waiting(id)
	inAnswer, completed := false, false
	completed, inAnswer = s.accepted[id]
	switch body := history.Message(m).(type) {
	case *updatepb.Acceptance:
		if inAnswer || known != nil && (known.Accepted != 0 || known.Outcome != nil) {
			return bad(causeUpdate, "the update %q was accepted before", id)
		}
		s.accepted[id] = false
		return s.keepAccepted(m, body, known, waits)
	case *updatepb.Response:
		accepted := inAnswer && !completed || known != nil && known.Accepted != 0 && known.Outcome == nil && !inAnswer
		if !accepted {
			return bad(causeUpdate, "the update %q is not an accepted one without an outcome", id)
		}
		s.accepted[id] = true
		s.kept = append(s.kept, m)
	case *updatepb.Rejection:
		if waits != nil {
			s.rejected[waits] = &updatepb.Outcome{Value: &updatepb.Outcome_Failure{Failure: body.Failure}}
		}
		if known != nil && known.Accepted == 0 && known.Outcome == nil { // the history has that it was admitted
			s.kept = append(s.kept, m)
		}
	default:
		return bad(causeUpdate, "the message %q cannot be read", m.Id)
	}
	return nil
}

// keepAccepted keeps an acceptance with the request that it is about: the history has it from there. After a restart
// the request is known only from the message.
func (s *said) keepAccepted(
	m *protocolpb.Message, body *updatepb.Acceptance, known *history.KnownUpdate, waits *update,
) *badCommand {
	switch {
	case known != nil || body.AcceptedRequest != nil:
		s.kept = append(s.kept, m)
		return nil
	case waits == nil:
		return bad(causeUpdate, "there is no update %q", m.ProtocolInstanceId)
	}
	full := proto.Clone(body).(*updatepb.Acceptance)
	full.AcceptedRequest = waits.request
	packed, err := anypb.New(full)
	if err != nil {
		return bad(causeUpdate, "%v", err)
	}
	own := proto.Clone(m).(*protocolpb.Message)
	own.Body = packed
	s.kept = append(s.kept, own)
	return nil
}

// becomesEvent reports whether the message of a command becomes an event.
func (s *said) becomesEvent(id string) bool { return history.Told(s.byID[id]) }

// isTraceless reports whether nothing is recorded of a task: it was there for updates alone, and its worker has
// accepted none of them.
func (r *OfRun) isTraceless(q *workflowservice.RespondWorkflowTaskCompletedRequest, l *lease, s *said) bool {
	return l.bare && l.attempt == 1 && len(s.kept) == 0 && len(q.Commands) == 0 &&
		!q.ForceCreateNewWorkflowTask
}

// rejectUnsaid ends the updates of which the worker of their task says nothing, unless it goes on with the next task.
func (r *OfRun) rejectUnsaid(q *workflowservice.RespondWorkflowTaskCompletedRequest, l *lease) {
	if q.ForceCreateNewWorkflowTask {
		return
	}
	for _, u := range append([]*update(nil), r.updates...) {
		if u.with == l {
			r.reject(u, unprocessed)
		}
	}
}
