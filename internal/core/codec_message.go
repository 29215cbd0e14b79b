package core

import "fmt"

// The encoding of a message:
//
//	header  one byte: version << 4
//	message a struct, as entries have them: presence bits, then the fields
//	content a tag, then its fields
//
// It may change as the encoding of an entry may. Instants are microseconds since the message's own.
const messageVersion = 1

// The contents' tags. A tag, once stored, stays.
const (
	tagChildStart = iota + 1
	tagChildStop
	tagChildBound
	tagChildAsk
	tagChildEnded
	tagTaskStopped
	tagSignalReceived
	tagRunStart
	tagRunStop
	tagKeyedStart
	tagKeyedStarted
	tagChildBegan
	tagSent
	tagSendEnded

	lastContent = tagSendEnded
)

// AppendMessage appends the message's encoding to dst.
func AppendMessage(dst []byte, m *Message) []byte {
	c := coder{buf: append(dst, messageVersion<<4)}
	m.fields(&c)
	c.writeContent(m.Content)
	return c.buf
}

// ReadMessage decodes a message. It shares no memory with src. Errors: ErrBroken, ErrNewerEntry.
func ReadMessage(src []byte) (m Message, err error) {
	defer func() {
		if v := recover(); v != nil {
			m, err = Message{}, fmt.Errorf("%w: reading a message panicked: %v", ErrBroken, v)
		}
	}()
	c := coder{buf: src, reading: true}
	version := c.byte() >> 4
	switch {
	case c.err != nil:
		return Message{}, c.err
	case version > messageVersion:
		return Message{}, fmt.Errorf("%w: message version %d, this one knows %d", ErrNewerEntry, version,
			messageVersion)
	case version != messageVersion:
		return Message{}, fmt.Errorf("%w: a message of version %d", ErrBroken, version)
	}
	m.fields(&c)
	m.Content = c.readContent()
	if c.err == nil && len(c.buf) > 0 {
		c.fail("%d bytes follow the message", len(c.buf))
	}
	if c.err != nil {
		return Message{}, c.err
	}
	return m, nil
}

// fields codes the message without its content. Instants that follow are written as differences to its own.
func (m *Message) fields(c *coder) {
	outer := c.open()
	c.id((*[16]byte)(&m.To))
	c.text(&m.Name)
	c.at = createdAt(m.To)
	c.time(&m.At)
	c.at = m.At
	c.close(outer)
}

// writeContent writes a message's content. Like readContent, it is a plain switch, as for records.
//
//nolint:funlen // a few lines for each content
func (c *coder) writeContent(a Content) {
	tag := byte(0)
	switch a.(type) {
	case ChildStart:
		tag = tagChildStart
	case ChildStop:
		tag = tagChildStop
	case ChildBound:
		tag = tagChildBound
	case ChildAsk:
		tag = tagChildAsk
	case ChildEnded:
		tag = tagChildEnded
	case TaskStopped:
		tag = tagTaskStopped
	case SignalReceived:
		tag = tagSignalReceived
	case RunStart:
		tag = tagRunStart
	case RunStop:
		tag = tagRunStop
	case KeyedStart:
		tag = tagKeyedStart
	case KeyedStarted:
		tag = tagKeyedStarted
	case ChildBegan:
		tag = tagChildBegan
	case Sent:
		tag = tagSent
	case SendEnded:
		tag = tagSendEnded
	default:
		panic(fmt.Sprintf("core: message content %T has no encoding", a))
	}
	c.buf = append(c.buf, tag)
	outer := c.open()
	switch a := a.(type) {
	case ChildStart:
		a.fields(c)
	case ChildStop:
		a.fields(c)
	case ChildBound:
		a.fields(c)
	case ChildAsk:
	case ChildEnded:
		a.fields(c)
	case TaskStopped:
		a.fields(c)
	case SignalReceived:
		a.fields(c)
	case RunStart:
		a.fields(c)
	case RunStop:
		a.fields(c)
	case KeyedStart:
		a.fields(c)
	case KeyedStarted:
		a.fields(c)
	case ChildBegan:
		a.fields(c)
	case Sent:
		a.fields(c)
	case SendEnded:
		a.fields(c)
	}
	c.close(outer)
}

func (c *coder) readContent() (a Content) {
	tag := c.byte()
	switch {
	case c.err != nil:
		return nil
	case tag == 0:
		c.fail("a message without a tag")
		return nil
	case tag > lastContent:
		c.err = fmt.Errorf("%w: message type %d", ErrNewerEntry, tag)
		return nil
	}
	outer := c.open()
	switch tag {
	case tagChildStart:
		var m ChildStart
		m.fields(c)
		a = m
	case tagChildStop:
		var m ChildStop
		m.fields(c)
		a = m
	case tagChildBound:
		var m ChildBound
		m.fields(c)
		a = m
	case tagChildAsk:
		a = ChildAsk{}
	case tagChildEnded:
		var m ChildEnded
		m.fields(c)
		a = m
	case tagTaskStopped:
		var m TaskStopped
		m.fields(c)
		a = m
	case tagSignalReceived:
		var m SignalReceived
		m.fields(c)
		a = m
	case tagRunStart:
		var m RunStart
		m.fields(c)
		a = m
	case tagRunStop:
		var m RunStop
		m.fields(c)
		a = m
	case tagKeyedStart:
		var m KeyedStart
		m.fields(c)
		a = m
	case tagKeyedStarted:
		var m KeyedStarted
		m.fields(c)
		a = m
	default:
		a = c.readNewerContent(tag)
	}
	c.close(outer)
	return a
}

// readNewerContent reads the contents that were added last.
func (c *coder) readNewerContent(tag byte) Content {
	switch tag {
	case tagChildBegan:
		var m ChildBegan
		m.fields(c)
		return m
	case tagSent:
		var m Sent
		m.fields(c)
		return m
	default:
		var m SendEnded
		m.fields(c)
		return m
	}
}

func (a *ChildStart) fields(c *coder) {
	c.id((*[16]byte)(&a.Definition))
	c.text(&a.Workflow)
	c.bytes(&a.Input)
	c.limitAt(&a.Execution)
	c.parent(&a.Parent)
	c.runQueue(&a.Queue)
	c.texts(&a.Within)
	c.text((*string)(&a.Headers))
	c.text(&a.WorkflowID)
	small(c, &a.Reuse)
	c.flag(&a.Tells)
}

func (a *ChildBegan) fields(c *coder) {
	c.step(&a.Step)
	optional(c, &a.Attempt)
}

func (a *Sent) fields(c *coder) {
	c.id((*[16]byte)(&a.From))
	c.step(&a.Step)
	c.id((*[16]byte)(&a.Run))
	c.text(&a.WorkflowID)
	c.flag(&a.OfChild)
	c.flag(&a.Cancel)
	c.text(&a.Name)
	// Less frequent.
	c.text(&a.ID)
	c.bytes(&a.Payload)
	c.text(&a.Actor)
	c.text(&a.Reason)
}

func (a *SendEnded) fields(c *coder) {
	c.step(&a.Step)
	c.failure(&a.Failure)
}

func (a *ChildStop) fields(c *coder) { small(c, &a.Op) }

func (a *ChildBound) fields(c *coder) {
	c.time(&a.Was)
	c.time(&a.Is)
}

func (a *ChildEnded) fields(c *coder) {
	c.step(&a.Step)
	optional(c, &a.Attempt)
	c.id((*[16]byte)(&a.Child))
	small(c, &a.Phase)
	c.bytes(&a.Output)
	c.failure(&a.Failure)
}

func (a *TaskStopped) fields(c *coder) {
	c.step(&a.Step)
	optional(c, &a.Attempt)
	c.flag(&a.Abandoned)
	c.flag(&a.Killed)
}

func (a *SignalReceived) fields(c *coder) {
	c.text(&a.Name)
	c.text(&a.ID)
	c.bytes(&a.Payload)
	c.text(&a.Actor)
	c.text(&a.Reason)
}

func (a *KeyedStart) fields(c *coder) {
	c.id((*[16]byte)(&a.Definition))
	c.text(&a.Workflow)
	c.text(&a.WorkflowID)
	c.text(&a.Key)
	c.bytes(&a.Input)
	c.flag(&a.Use)
	c.text(&a.Actor)
	c.text(&a.Reason)
	c.time(&a.At)
	// Less frequent.
	c.limit(&a.Execution)
	c.limit(&a.Run)
	c.limitAt(&a.ExecutionAt)
	c.limitAt(&a.RunAt)
	c.text(&a.Notify)
	c.text((*string)(&a.Labels))
	c.runQueue(&a.Queue)
	c.text((*string)(&a.Headers))
	c.flag(&a.Chain.AfterFailure)
	c.time(&a.Firing)
	c.text(&a.Zone)
}

func (a *KeyedStarted) fields(c *coder) {
	c.text(&a.Workflow)
	c.text(&a.Key)
	c.id((*[16]byte)(&a.Claimed))
	c.id((*[16]byte)(&a.Run))
	c.text(&a.Refusal.Code)
	c.text(&a.Refusal.ID)
	c.text(&a.Refusal.Message)
	c.text(&a.Refusal.Hint)
}
