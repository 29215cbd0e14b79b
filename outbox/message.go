package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// format is the version of the messages that this package writes. It reads all versions from 1 to this one.
//
// Every later version has to name the recipient in the way of version 1: in run, or in start.id. A program that cannot
// read such a message then knows which messages have to wait for it.
const format = 1

// message is the text of a row: a start, or an event for a run.
type message struct {
	Format int    `json:"format"`
	Start  *start `json:"start,omitempty"`

	Run   string `json:"run,omitempty"` // workflow id or run id
	Event string `json:"event,omitempty"`
	Body  []byte `json:"body,omitempty"` // the event's payload, encoded
}

// start is a client.StartRequest in its stored form. The two can be converted into each other only while they have the
// same fields, so whoever changes client.StartRequest has to define here what happens to the rows in people's
// databases.
type start struct {
	Workflow       string    `json:"workflow"`
	ID             string    `json:"id,omitempty"`
	IdempotencyKey string    `json:"key,omitempty"`
	Input          []byte    `json:"input,omitempty"`
	UseExisting    bool      `json:"useExisting,omitempty"`
	At             time.Time `json:"at,omitzero"`
	Deadline       time.Time `json:"deadline,omitzero"`
	Actor          string    `json:"actor,omitempty"`
	Reason         string    `json:"reason,omitempty"`

	Labels   map[string]string `json:"labels,omitempty"`
	Queue    string            `json:"queue,omitempty"`
	QueueKey string            `json:"queueKey,omitempty"`
	Priority int32             `json:"priority,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
}

var (
	errEmpty = errors.New("the message holds neither a start nor an event")
	errNewer = errors.New("the message was written by a newer version of Pawl: update the program that relays it")
)

func (m message) encode() (string, error) {
	m.Format = format
	text, err := json.Marshal(m)
	return string(text), err
}

// decode reads the text of a row. Its error is errNewer if a newer program may be able to read it; the message then
// holds only what names its recipient.
func decode(text string) (message, error) {
	var m message
	err := json.Unmarshal([]byte(text), &m)
	if m.Format > format { // known even if another field has a type that this program does not expect
		known := message{Run: m.Run}
		if m.Start != nil {
			known.Start = &start{ID: m.Start.ID}
		}
		return known, fmt.Errorf("format %d: %w", m.Format, errNewer)
	}
	if err != nil {
		return message{}, fmt.Errorf("the message cannot be read: %w", err)
	}
	if m.Format < 1 {
		return message{}, fmt.Errorf("the message has format %d, and the first one is 1: write it with outbox.StartIn"+
			" or outbox.SendIn", m.Format)
	}
	if m.Start == nil && m.Event == "" {
		return message{}, errEmpty
	}
	return m, nil
}
