package flow

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow"
)

// CircleError is the error of a flow that starts itself without end, directly or through others.
type CircleError struct{ error }

// Unwrap returns the error at its place in the document.
func (e *CircleError) Unwrap() error { return e.error }

// Circle returns a *CircleError if a run of the document is certain to start runs without end: by steps that nothing
// but a failure keeps from starting the flow that they name. nil: it may end.
func (b Bundle) Circle(doc *flow.Document) error {
	docs := map[string]*flow.Document{}
	for _, s := range b.sources() {
		if d, err := s.parse(); err == nil && docs[d.Name] == nil {
			docs[d.Name] = d
		}
	}
	docs[doc.Name] = doc
	var first *flow.Step
	var path []string
	var follow func(d *flow.Document) bool
	follow = func(d *flow.Document) bool {
		path = append(path, d.Name)
		for _, s := range certainStarts(d) {
			name := childName(s)
			if d == doc {
				first = s
			}
			if slices.Contains(path, name) {
				path = append(path, name)
				return true
			}
			if next := docs[name]; next != nil && follow(next) {
				return true
			}
		}
		path = path[:len(path)-1]
		return false
	}
	if !follow(doc) {
		return nil
	}
	return &CircleError{doc.ErrorAt(first, "give a step of the circle a condition with when:",
		"the flow starts runs without end: %s", strings.Join(path, " → "))}
}

// certainStarts returns the steps of a document that start a child flow in each run, if all steps succeed.
func certainStarts(doc *flow.Document) []*flow.Step {
	byName := map[string]*flow.Step{}
	for _, s := range doc.Steps {
		byName[s.Name] = s
	}
	var certain func(s *flow.Step, depth int) bool
	certain = func(s *flow.Step, depth int) bool {
		skipped := s.Policy.Retry != nil && s.Policy.Retry.MaxAttempts == 0
		repeated := !s.ForEach.IsZero() || !s.Matrix.IsZero() || s.Each != ""
		if depth > len(doc.Steps) || skipped || repeated || !s.When.IsZero() {
			return false
		}
		for _, need := range s.Needs {
			if n := byName[need]; n == nil || !certain(n, depth+1) {
				return false
			}
		}
		return true
	}
	var out []*flow.Step
	for _, s := range doc.Steps {
		if name := childName(s); name != "" && !strings.Contains(name, "${{") && certain(s, 0) {
			out = append(out, s)
		}
	}
	return out
}

// childName returns the name of the flow that a step starts, or the expression that makes it, empty if it starts none.
func childName(s *flow.Step) string {
	child, ok := s.Action.(*flow.Child)
	if !ok {
		return ""
	}
	name, _ := child.Name.Any().(string)
	return name
}
