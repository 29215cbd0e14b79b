package flow

import (
	"testing"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestForms checks that a flow is stored with its runs as version 0.1.0 stored it.
func TestForms(t *testing.T) {
	b := golden.Full[Bundle]()
	b.Flow.Text = "pawl: 1\nname: a\nsteps: [{name: s, noop: {}}]\n"
	golden.Form(t, "bundle.json", b,
		func(b Bundle) ([]byte, error) {
			d, err := b.Definition("a")
			return d.Source, err
		},
		func(text []byte) (Bundle, error) {
			return decode(journal.Definition{ID: flow.ID(text), Kind: journal.KindFlow, Name: "a", Source: text})
		})
}
