package server

import (
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
)

// TestForms checks that a remembered answer of a server has the form of version 0.1.0.
func TestForms(t *testing.T) {
	golden.Form(t, "kept.json", golden.Full[storedAnswer](),
		func(k storedAnswer) ([]byte, error) { return json.Marshal(k) },
		func(text []byte) (out storedAnswer, err error) { return out, json.Unmarshal(text, &out) })
}
