package live

import (
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
)

// Printed returns the end of the text that the last attempt of a failed step printed: on stderr, or else on stdout.
// It is empty if it adds nothing to the failure itself.
func Printed(s *api.Step) string {
	if s.Superseded || s.Phase != api.StepFailed && s.Phase != api.StepTimedOut || s.Failure == nil {
		return ""
	}
	var printed struct{ Stdout, Stderr string }
	if json.Unmarshal(s.Failure.Details, &printed) != nil {
		return ""
	}
	text := strings.TrimSpace(printed.Stderr)
	if text == "" {
		text = strings.TrimSpace(printed.Stdout)
	}
	if !strings.Contains(text, "\n") && strings.Contains(s.Failure.Message, text) {
		return ""
	}
	return text
}
