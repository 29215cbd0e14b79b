package catalog

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestForms: what is stored is as version 0.1.0 had it.
func TestForms(t *testing.T) {
	golden.Form(t, "flow.json", golden.Full[api.Flow](),
		func(v api.Flow) ([]byte, error) { return journal.EncodeDocument(documentVersion, v) },
		func(text []byte) (out api.Flow, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
}
