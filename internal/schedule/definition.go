package schedule

import (
	"crypto/sha256"
	"encoding/hex"
)

// Kind is the kind of the definition that all schedules have, and Source its text.
const (
	Kind   = "schedule"
	Source = `{"version":1}`
)

// DefinitionID returns the id of that definition.
func DefinitionID() string {
	sum := sha256.Sum256([]byte(Source))
	return hex.EncodeToString(sum[:16])
}
