package report

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
)

// Rows returns the steps of a run as the lists of a CI system have them: the items of a loop in its place, and the loop
// itself if it has none, as one that was skipped.
func Rows(r *api.Run) []*api.Step {
	hasItems := map[string]bool{}
	for _, s := range r.Steps {
		if s.Group != "" && !s.Superseded {
			hasItems[s.Group] = true
		}
	}
	var out []*api.Step
	for _, s := range r.Steps {
		value := s.Kind == "" && s.Item != nil // an item of a loop that is only a value
		if !s.Superseded && !value && !hasItems[s.Step] {
			out = append(out, s)
		}
	}
	return out
}

// NotBegun returns the steps of the flow that the run has not begun, by their names, and why.
func NotBegun(r *api.Run) (names []string, why string) {
	begun := map[string]bool{}
	for _, s := range r.Steps {
		base, _, _ := strings.Cut(s.Step, "[")
		begun[base], begun[s.Name] = true, true
	}
	for _, plan := range r.Plan {
		if !begun[plan.Name] {
			names = append(names, plan.Name)
		}
	}
	if r.Phase.Closed() {
		return names, "it never began: the run had ended"
	}
	return names, "it has not begun"
}
