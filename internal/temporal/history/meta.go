package history

import (
	"encoding/binary"
	"errors"

	commandpb "go.temporal.io/api/command/v1"
	enumspb "go.temporal.io/api/enums/v1"
	protocolpb "go.temporal.io/api/protocol/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
)

// Meta is what is kept with an answer. One of Completed and Failed is set, or the worker has not answered in time.
type Meta struct {
	// Base is the run whose entries the run begins with, up to here: Failed says why. Empty: the answer is a worker's.
	Base      string
	Attempt   int32  // the attempt of the task
	Identity  string // the worker that has answered, or that had the task when it timed out
	Completed *workflowservice.RespondWorkflowTaskCompletedRequest
	// Messages are those of Completed that are kept.
	Messages []*protocolpb.Message
	Failed   *workflowservice.RespondWorkflowTaskFailedRequest
}

// The first byte of an encoded Meta.
const (
	metaCompleted byte = iota + 1
	metaFailed
	metaTimedOut
	metaReset
)

// Encode returns the bytes that are kept: what it is, the attempt, and the message as it came. What else is recorded
// of the answer, in its steps and in the outcome of its run, is left out. Errors: a text in the message is not UTF-8.
func (m *Meta) Encode() ([]byte, error) {
	kind, msg := metaTimedOut, proto.Message(nil)
	switch {
	case m.Completed != nil:
		kind, msg = metaCompleted, lean(m.Completed, m.Messages)
	case m.Failed != nil:
		short := proto.Clone(m.Failed).(*workflowservice.RespondWorkflowTaskFailedRequest)
		short.TaskToken, short.Namespace = nil, ""
		kind, msg = metaFailed, short
	}
	if m.Base != "" {
		kind = metaReset
	}
	out := binary.AppendUvarint([]byte{kind}, uint64(m.Attempt))
	if m.Base != "" {
		out = append(binary.AppendUvarint(out, uint64(len(m.Base))), m.Base...)
	}
	if msg == nil {
		return append(out, m.Identity...), nil
	}
	return proto.MarshalOptions{}.MarshalAppend(out, msg)
}

var errMeta = errors.New("the answer of a workflow task cannot be read")

// decodeMeta reads what Encode has written.
func decodeMeta(b []byte) (m Meta, err error) {
	if len(b) == 0 {
		return m, errMeta
	}
	attempt, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return m, errMeta
	}
	m.Attempt = int32(attempt)
	rest := b[1+n:]
	if b[0] == metaReset {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return m, errMeta
		}
		m.Base, rest = string(rest[n:n+int(size)]), rest[n+int(size):]
	}
	switch b[0] {
	case metaCompleted:
		m.Completed = &workflowservice.RespondWorkflowTaskCompletedRequest{}
		err = proto.Unmarshal(rest, m.Completed)
		m.Identity, m.Messages = m.Completed.Identity, m.Completed.Messages
	case metaFailed, metaReset:
		m.Failed = &workflowservice.RespondWorkflowTaskFailedRequest{}
		err = proto.Unmarshal(rest, m.Failed)
		m.Identity = m.Failed.Identity
	case metaTimedOut:
		m.Identity = string(rest)
	default:
		err = errMeta
	}
	return m, err
}

// lean returns an answer without what is recorded elsewhere, and what is of no use later.
func lean(
	q *workflowservice.RespondWorkflowTaskCompletedRequest, kept []*protocolpb.Message,
) *workflowservice.RespondWorkflowTaskCompletedRequest {
	out := &workflowservice.RespondWorkflowTaskCompletedRequest{
		Identity: q.Identity, SdkMetadata: q.SdkMetadata, MeteringMetadata: q.MeteringMetadata, Messages: kept,
		ForceCreateNewWorkflowTask: q.ForceCreateNewWorkflowTask,
	}
	out.ProtoReflect().SetUnknown(q.ProtoReflect().GetUnknown())
	out.Commands = make([]*commandpb.Command, len(q.Commands))
	for i, c := range q.Commands {
		out.Commands[i] = leanCommand(c)
	}
	return out
}

// leanCommand returns a command without what its step, or the outcome of the run, has.
func leanCommand(c *commandpb.Command) *commandpb.Command {
	short := &commandpb.Command{CommandType: c.CommandType, UserMetadata: c.UserMetadata}
	switch a := c.Attributes.(type) {
	case *commandpb.Command_ScheduleActivityTaskCommandAttributes, *commandpb.Command_StartTimerCommandAttributes,
		*commandpb.Command_StartChildWorkflowExecutionCommandAttributes,
		*commandpb.Command_SignalExternalWorkflowExecutionCommandAttributes,
		*commandpb.Command_RequestCancelExternalWorkflowExecutionCommandAttributes,
		*commandpb.Command_CompleteWorkflowExecutionCommandAttributes,
		*commandpb.Command_FailWorkflowExecutionCommandAttributes:
		return short
	case *commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes:
		next := proto.Clone(a.ContinueAsNewWorkflowExecutionCommandAttributes)
		own := next.(*commandpb.ContinueAsNewWorkflowExecutionCommandAttributes)
		own.Input = nil
		short.Attributes = &commandpb.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
			ContinueAsNewWorkflowExecutionCommandAttributes: own,
		}
		return short
	default:
		return c
	}
}

// Ends reports whether a command ends the run.
func Ends(c *commandpb.Command) bool {
	switch c.GetCommandType() {
	case enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION, enumspb.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
		enumspb.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION, enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION:
		return true
	default:
		return false
	}
}
