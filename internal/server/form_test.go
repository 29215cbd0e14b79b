package server

import (
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
)

// TestForms: what an answer is that a server remembers is as version 0.1.0 had it.
func TestForms(t *testing.T) {
	golden.Form(t, "kept.json", golden.Full[kept](),
		func(k kept) ([]byte, error) { return json.Marshal(k) },
		func(text []byte) (out kept, err error) { return out, json.Unmarshal(text, &out) })
}
