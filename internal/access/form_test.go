package access

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestForms checks that the stored form is that of version 0.1.0.
func TestForms(t *testing.T) {
	golden.Form(t, "token.json", golden.Full[stored](),
		func(v stored) ([]byte, error) { return journal.EncodeDocument(documentVersion, v) },
		func(text []byte) (out stored, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
	golden.Form(t, "audited.json", golden.Full[api.Audited](),
		func(v api.Audited) ([]byte, error) { return journal.EncodeDocument(documentVersion, v) },
		func(text []byte) (out api.Audited, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
}
