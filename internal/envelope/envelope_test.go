package envelope_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/pawl-dev/pawl/internal/envelope"
)

// TestEnvelope checks that the stored form is JSON, and that it is read back byte for byte.
func TestEnvelope(t *testing.T) {
	key := map[string]string{"key": `2 "new"`}
	for _, test := range []struct {
		meta    map[string]string
		payload string
		stored  string // empty: as the payload is
	}{
		{nil, `"plain"`, ""},
		{nil, `{"pawl.met":1}`, ""},
		{key, `"c2VjcmV0"`, `{"pawl.meta":{"key":"2 \"new\""},"data":"c2VjcmV0"}`},
		{key, `{ "a" : "<b>" }`, `{"pawl.meta":{"key":"2 \"new\""},"data":{ "a" : "<b>" }}`},
		{nil, `{"pawl.meta":{"key":"x"},"data":1}`, `{"pawl.meta":null,"data":{"pawl.meta":{"key":"x"},"data":1}}`},
	} {
		if test.stored == "" {
			test.stored = test.payload
		}
		stored, err := envelope.Wrap(test.meta, []byte(test.payload))
		if err != nil || string(stored) != test.stored || !json.Valid(stored) {
			t.Errorf("stored as %s, %v; want %s", stored, err, test.stored)
		}
		meta, payload := envelope.Open(stored)
		if string(payload) != test.payload || !maps.Equal(meta, test.meta) {
			t.Errorf("%s is read as %s with %v, was %s with %v", stored, payload, meta, test.payload, test.meta)
		}
	}
	if _, payload := envelope.Open([]byte(`{"pawl.meta":7}`)); string(payload) != `{"pawl.meta":7}` {
		t.Errorf("what is no envelope is read as %s", payload)
	}
}
