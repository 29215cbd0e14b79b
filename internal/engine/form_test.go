package engine

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestForm checks that the claim of a key is stored as version 0.1.0 stores it.
func TestForm(t *testing.T) {
	golden.Form(t, "claim.json", golden.Full[storedClaim](),
		func(s storedClaim) ([]byte, error) { return journal.EncodeDocument(documentVersion, s) },
		func(text []byte) (out storedClaim, err error) {
			return out, journal.DecodeDocument(text, documentVersion, &out)
		})
}
