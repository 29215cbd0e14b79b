// Package naming has the rules for the texts by which callers name what they start, send and look for. Every receiver
// of such a text checks it here, so that it is the same wherever it is sent and stored.
package naming

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The greatest lengths, in bytes.
const (
	most       = 1000   // names, ids and keys
	mostReason = 10_000 // reasons of starts and operations
)

// Start is the texts of a start.
type Start struct{ WorkflowID, Key, Queue, QueueKey, Actor, Reason string }

// Check refuses texts that cannot be kept and sent as they are.
func (s Start) Check() error {
	return errors.Join(
		Check("the workflow id", s.WorkflowID, most), Check("the idempotency key", s.Key, most),
		Check("the queue", s.Queue, most), Check("the queue's key", s.QueueKey, most),
		Operation{s.Actor, s.Reason}.Check(),
	)
}

// Send is the texts of an event or an update.
type Send struct{ Name, ID, Actor, Reason string }

// Check refuses texts that cannot be kept and sent as they are.
func (s Send) Check() error {
	by := Operation{s.Actor, s.Reason}
	return errors.Join(Check("the name", s.Name, most), Check("the id", s.ID, most), by.Check())
}

// Operation is the texts of an operation.
type Operation struct{ Actor, Reason string }

// Check refuses texts that cannot be kept and sent as they are.
func (o Operation) Check() error {
	return errors.Join(Check("the actor", o.Actor, most), Check("the reason", o.Reason, mostReason))
}

// Item reads what people call an item of a loop: test[mac, 3]. A number in the brackets is an item's place, and never
// its name; then, and where there are no brackets, ok is false.
func Item(text string) (step, item string, ok bool) {
	step, rest, inBrackets := strings.Cut(text, "[")
	item, closed := strings.CutSuffix(rest, "]")
	_, notNumber := strconv.ParseUint(item, 10, 64)
	return step, item, inBrackets && closed && item != "" && notNumber != nil
}

// Check refuses a text that is longer than most bytes, or that would change when it is sent or stored: invalid UTF-8
// becomes something else in JSON, and PostgreSQL has no NUL. what names the text in the error.
func Check(what, text string, most int) error {
	switch {
	case len(text) > most:
		return fmt.Errorf("%s has %d bytes, more than %d", what, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not valid UTF-8", what, text)
	case strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s %q has the character NUL", what, text)
	default:
		return nil
	}
}

// mostText bounds what is kept of an error's text, in bytes. It goes into the history and into every error that a
// caller gets.
const mostText = 16 << 10

// Shorten returns the beginning of a text that is too long to be kept, and how long it was.
func Shorten(text string) string {
	if len(text) <= mostText {
		return text
	}
	end := mostText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s … (%d bytes in all)", text[:end], len(text))
}
