// Package envelope is the stored form of a payload for which a codec stores metadata, such as the id of a key: a JSON
// object {"pawl.meta": …, "data": …}. A payload without metadata is stored as the codec made it.
package envelope

import (
	"bytes"
	"encoding/json"
)

var (
	head = []byte(`{"pawl.meta":`)
	data = []byte(`,"data":`)
)

// Wrap returns the stored form of a payload, which is JSON. A payload that itself looks like an envelope gets one, so
// that it is read unchanged.
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
