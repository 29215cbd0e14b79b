package engine

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestPayloadsAreBytes checks that the engine keeps what a kind and its callers take for a value, in any form: the
// input of a run, and the payload of an event. With the same key the same bytes are the same start.
func TestPayloadsAreBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := open(t, memory.New(), -1, succeed, func(c *Config) { c.MaxPayload = 8 })
		defer closeEngine(t, e)
		raw, other := []byte{0xff, 0, '{'}, []byte{0xff, 1}
		start := func(input []byte) (Started, error) {
			return e.Start(t.Context(), StartRequest{
				Definition: flow("raw", event("go")).definition(), Start: core.Start{Input: input, Key: "k"},
			})
		}
		s, err := start(raw)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := start(raw); err != nil || again != (Started{Run: s.Run, Existing: true}) {
			t.Errorf("the same start: %+v, %v", again, err)
		}
		if _, err := start(other); CodeOf(err) != CodeConflict {
			t.Errorf("the key with another input: %v", err)
		}
		if err := e.Signal(t.Context(), s.Run, core.SignalReceived{Name: "go", Payload: other}, false); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Result(t.Context(), s.Run); err != nil {
			t.Fatal(err)
		}
		run, err := e.Inspect(t.Context(), s.Run)
		if err != nil || !bytes.Equal(run.Input, raw) || !bytes.Equal(run.Steps[0].Output, other) {
			t.Errorf("the run has the input %x and the event %x, %v", run.Input, run.Steps[0].Output, err)
		}
		if _, err := start(make([]byte, 9)); CodeOf(err) != CodeTooLarge {
			t.Errorf("an input that is too large: %v", err)
		}
	})
}

// TestChildPayloadsAreBytes checks that the payload of a child step has the form of its kind, and that the child's
// input may be no JSON.
func TestChildPayloadsAreBytes(t *testing.T) {
	r := newRig(t, -1)
	kid := flow("kid", event("go"))
	var asked []byte
	r.kinds["plan"] = Kind{Compile: r.compile, Child: func(_ core.DefinitionID, payload []byte) (Child, error) {
		asked = payload
		return Child{Definition: kid.definition(), Input: []byte{0xff, 0}}, nil
	}}
	r.restart()
	parent := r.start(flow("parent", child("kid, not JSON")))
	r.settle()
	run := r.state(r.state(parent).Steps[0].Child)
	if string(asked) != "kid, not JSON" || !bytes.Equal(run.Input, []byte{0xff, 0}) {
		t.Errorf("the kind got %q, the child %x", asked, run.Input)
	}
}
