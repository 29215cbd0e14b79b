package catalog

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestForms checks that the stored form is that of version 0.1.0.
func TestForms(t *testing.T) {
	golden.Form(t, "flow.json", golden.Full[api.Flow](),
		func(v api.Flow) ([]byte, error) { return journal.EncodeDocument(documentVersion, v) },
		func(text []byte) (out api.Flow, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
}
