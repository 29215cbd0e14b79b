package convert

import (
	"encoding/json"
	"unicode/utf8"

	commonpb "go.temporal.io/api/common/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Encoding is the metadata of a payload that says how its data is to be read, and json what it says of JSON.
const (
	encoding  = "encoding"
	plainJSON = "json/plain"
	// attributeType is the metadata of the value of a search attribute that names its type.
	attributeType = "type"
)

// Payloads reads what is stored of payloads; nil: there are none.
func Payloads(b []byte) *commonpb.Payloads {
	if len(b) == 0 {
		return nil
	}
	p := &commonpb.Payloads{}
	if proto.Unmarshal(b, p) != nil {
		return nil
	}
	return p
}

// Given returns payloads that hold JSON which an operator has given.
func Given(b []byte) *commonpb.Payloads {
	if len(b) == 0 {
		return nil
	}
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{
		{Metadata: map[string][]byte{encoding: []byte(plainJSON)}, Data: b},
	}}
}

// Bytes returns payloads as they are stored; nil: there are none. Errors: a text in them is not UTF-8.
func Bytes(p *commonpb.Payloads) ([]byte, error) {
	if p == nil {
		return nil, nil
	}
	b, err := proto.Marshal(p)
	if b == nil && err == nil {
		b = []byte{} // there are payloads, and none among them
	}
	return b, err
}

// ShowInput returns what people are shown of the input of a run: the arguments of its workflow.
func ShowInput(b []byte) []byte {
	start := &workflowservice.StartWorkflowExecutionRequest{}
	if proto.Unmarshal(b, start) != nil {
		return unreadable(b)
	}
	return show(start.Input)
}

// ShowValue returns what people are shown of another payload: the value, or all of them where there are several.
func ShowValue(b []byte) []byte {
	if json.Valid(b) && utf8.Valid(b) { // an operator has given it
		return b
	}
	p := &commonpb.Payloads{}
	if proto.Unmarshal(b, p) != nil {
		return unreadable(b)
	}
	return show(p)
}

func show(p *commonpb.Payloads) []byte {
	if len(p.GetPayloads()) == 0 {
		return nil
	}
	values := make([]json.RawMessage, len(p.Payloads))
	for i, one := range p.Payloads {
		values[i] = showOne(one)
	}
	if len(values) == 1 {
		return values[0]
	}
	out, err := json.Marshal(values)
	if err != nil {
		return nil
	}
	return out
}

// showOne returns the data of a payload where it is JSON or nothing, else the bytes with how they are encoded.
func showOne(p *commonpb.Payload) json.RawMessage {
	switch how := string(p.GetMetadata()[encoding]); {
	case how == "binary/null":
		return json.RawMessage("null")
	case how == plainJSON && json.Valid(p.Data) && utf8.Valid(p.Data), how == "json/protobuf" && json.Valid(p.Data):
		return p.Data
	default:
		out, err := json.Marshal(struct {
			Encoding string `json:"encoding,omitempty"`
			Data     []byte `json:"data"`
		}{how, p.GetData()})
		if err != nil {
			return nil
		}
		return out
	}
}

func unreadable(b []byte) []byte {
	out, err := json.Marshal(b)
	if err != nil {
		return nil
	}
	return out
}

// headerField is the field, unknown to the protocol, in which an event's payloads carry its header.
const headerField protowire.Number = 1000

// Signal returns what is stored of an event: its payloads, with its header behind them. Errors: a text in them is not
// UTF-8.
func Signal(input *commonpb.Payloads, header *commonpb.Header) ([]byte, error) {
	out, err := Bytes(WithoutOwn(input))
	if err != nil || len(header.GetFields()) == 0 {
		return out, err
	}
	raw, err := proto.Marshal(header)
	out = protowire.AppendTag(out, headerField, protowire.BytesType)
	return protowire.AppendBytes(out, raw), err
}

// Sent returns the payloads and the header of an event, or the payload that an operator has given it.
func Sent(b []byte) (*commonpb.Payloads, *commonpb.Header) {
	if json.Valid(b) {
		return Given(b), nil
	}
	input := Payloads(b)
	if input == nil {
		return nil, nil
	}
	raw := Field(input, headerField)
	input.ProtoReflect().SetUnknown(nil)
	header := &commonpb.Header{}
	if raw == nil || proto.Unmarshal(raw, header) != nil {
		return input, nil
	}
	return input, header
}

// Field returns the bytes of a field that the protocol does not know; nil: the message has none.
func Field(m proto.Message, want protowire.Number) []byte {
	for rest := []byte(m.ProtoReflect().GetUnknown()); len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			return nil
		}
		if number == want && kind == protowire.BytesType {
			raw, _ := protowire.ConsumeBytes(rest[n:])
			return raw
		}
		rest = rest[n+size:]
	}
	return nil
}

// WithField adds a field that the protocol does not know to a message, in front of others of its number.
func WithField(m proto.Message, number protowire.Number, value []byte) {
	raw := protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	m.ProtoReflect().SetUnknown(append(raw, m.ProtoReflect().GetUnknown()...))
}

// WithoutOwn returns a message that came from outside, without the fields that only this package may add.
func WithoutOwn[M proto.Message](m M) M {
	kept, found := []byte(nil), false
	for rest := []byte(m.ProtoReflect().GetUnknown()); len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return m // nothing reads fields behind it
		}
		if own := number >= firstOwn && number <= lastOwn; own {
			found = true
		} else {
			kept = append(kept, rest[:n]...)
		}
		rest = rest[n:]
	}
	if !found {
		return m
	}
	out := proto.Clone(m)
	out.ProtoReflect().SetUnknown(kept)
	return out.(M)
}

// firstOwn to lastOwn are the numbers of the fields, unknown to the protocol, that are used here.
const firstOwn, lastOwn protowire.Number = 1000, 1099

// updateField is the field, unknown to the protocol, of an event that brings an update.
const updateField protowire.Number = 1001

// Readmit returns the event that brings an update to a run that goes on in place of one that had accepted it. Errors:
// a text in it is not UTF-8.
func Readmit(request *updatepb.Request) (name string, payload []byte, err error) {
	raw, err := proto.Marshal(request)
	if err != nil {
		return "", nil, err
	}
	shown := &commonpb.Payloads{Payloads: request.GetInput().GetArgs().GetPayloads()}
	WithField(shown, updateField, raw)
	payload, err = proto.Marshal(shown)
	return "update " + request.GetInput().GetName(), payload, err
}

// Readmitted returns the update that an event brings; nil: it brings none.
func Readmitted(payload []byte) *updatepb.Request {
	input := Payloads(payload)
	if input == nil {
		return nil
	}
	raw, request := Field(input, updateField), &updatepb.Request{}
	if raw == nil || proto.Unmarshal(raw, request) != nil {
		return nil
	}
	return request
}

// Keyword returns a text as the value of a search attribute.
func Keyword(text string) *commonpb.Payload {
	data, _ := json.Marshal(text) // a text has a form
	return &commonpb.Payload{
		Metadata: map[string][]byte{encoding: []byte(plainJSON), attributeType: []byte("Keyword")}, Data: data,
	}
}
