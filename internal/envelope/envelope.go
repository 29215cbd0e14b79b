// Package envelope is the stored form of a payload with which a codec keeps something else, such as the id of a key: a
// JSON object {"pawl.meta": …, "data": …}. A payload without such things is stored as the codec made it, as it always
// was.
package envelope

import (
	"bytes"
	"encoding/json"
)

var (
	head = []byte(`{"pawl.meta":`)
	data = []byte(`,"data":`)
)

// Wrap returns the stored form of a payload, which is JSON. What looks like an envelope by itself gets one, so that it
// is read as it was.
func Wrap(meta map[string]string, payload []byte) ([]byte, error) {
	if len(meta) == 0 && !bytes.HasPrefix(payload, head) {
		return payload, nil
	}
	about, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(head)+len(about)+len(data)+len(payload)+1)
	out = append(append(out, head...), about...)
	out = append(append(out, data...), payload...)
	return append(out, '}'), nil
}

// Open returns the value that Wrap was given.
func Open(stored []byte) (meta map[string]string, payload []byte) {
	if !bytes.HasPrefix(stored, head) {
		return nil, stored
	}
	var e struct {
		Meta map[string]string `json:"pawl.meta"`
		Data json.RawMessage   `json:"data"`
	}
	if json.Unmarshal(stored, &e) != nil || e.Data == nil {
		return nil, stored
	}
	return e.Meta, e.Data
}
