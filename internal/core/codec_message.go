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
	if tag, outer := c.tag("message", lastContent); c.err == nil {
		m.Content = c.readContent(tag)
		c.close(outer)
	}
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

// fields codes what a start has where the run is made for an idempotency key.
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

func (c *coder) refusal(p *Refusal) {
	c.text(&p.Code)
	c.text(&p.ID)
	c.text(&p.Message)
	c.text(&p.Hint)
}
