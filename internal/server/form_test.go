package server

import (
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
)

// TestForms checks that a remembered answer of a server has the form of version 0.1.0.
func TestForms(t *testing.T) {
	golden.Form(t, "kept.json", golden.Full[kept](),
		func(k kept) ([]byte, error) { return json.Marshal(k) },
		func(text []byte) (out kept, err error) { return out, json.Unmarshal(text, &out) })
}
