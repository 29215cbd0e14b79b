package pawl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// Codec turns values into what the history holds and back. It must write JSON, since people and tools
// expect JSON in a history; a codec that encrypts writes a JSON string. A codec must read what it wrote years ago.
type Codec interface {
	Encode(v any) ([]byte, error)
	Decode(data []byte, v any) error
}

// JSON is the default codec.
type JSON struct{}

// Encode makes JSON.
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(v) }

// Decode reads JSON.
func (JSON) Decode(data []byte, v any) error { return json.Unmarshal(data, v) }

var null = []byte("null")

// encode makes a payload; its error names what the payload is.
func encode(c Codec, what string, v any) ([]byte, error) {
	b, err := c.Encode(v)
	if err != nil {
		return nil, NonRetryable(fmt.Errorf("pawl: %s cannot be encoded: %w", what, err))
	}
	if _, plain := c.(JSON); !plain && !json.Valid(b) {
		return nil, NonRetryable(fmt.Errorf("pawl: %s: the codec made no JSON: it has to return at least a JSON string",
			what))
	}
	return b, nil
}

// input makes a payload that goes to another run, a handler or the next attempt.
func (h *host) input(c Codec, what string, v any) ([]byte, error) {
	b, err := encode(c, what, v)
	if err == nil {
		err = h.tooLarge(what, b)
	}
	return b, err
}

// decode reads a payload; an empty one and null give the zero value.
func decode[T any](c Codec, what string, b []byte) (T, error) {
	v, err := read[T](c, b)
	if err != nil {
		return v, NonRetryable(fmt.Errorf("pawl: %s cannot be read as %s: %w", what, reflect.TypeFor[T](), err))
	}
	return v, nil
}

// recorded is decode for a value that code of before has written. Where the code of today cannot read it, the body
// cannot go on, and the call ends.
func recorded[T any](b *branch, c Codec, what string, data []byte) T {
	v, err := read[T](c, data)
	if err != nil {
		b.Unreadable(what, reflect.TypeFor[T]().String(), err)
	}
	return v
}

func read[T any](c Codec, b []byte) (v T, err error) {
	if len(b) == 0 || bytes.Equal(b, null) {
		return v, nil
	}
	err = c.Decode(b, &v)
	return v, err
}
