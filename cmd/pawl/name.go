package main

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

// findStep finds a step by its key; if there is none, the error names the nearest one.
func findStep(r *api.Run, key string) (*api.Step, error) {
	s, several := r.Named(key)
	short := live.Short(r.Run)
	switch {
	case s != nil:
		return s, nil
	case len(several) > 0:
		return nil, fmt.Errorf("several items of run %s are called %q: say which, by its number: %s", short, key,
			strings.Join(several[:min(len(several), 20)], ", "))
	}
	for _, plan := range r.Plan {
		switch {
		case plan.Name != key:
		case r.Phase.Closed():
			return nil, fmt.Errorf("step %q of run %s never began", key, short)
		default:
			return nil, fmt.Errorf("step %q of run %s has not begun yet; wait until what it needs has ended "+
				"(pawl run show %s)",
				key, short, short)
		}
	}
	return nil, &api.Error{
		Code:    api.CodeNotFound,
		Message: fmt.Sprintf("run %s has no step %q; %s", short, key, nearestStep(key, stepKeys(r))),
	}
}

// stepKeys returns the keys of a run's steps.
func stepKeys(r *api.Run) []string {
	var keys []string
	for _, s := range r.Steps {
		if !s.Superseded {
			keys = append(keys, s.Step)
		}
	}
	return keys
}

func nearestStep(key string, keys []string) string {
	if len(keys) == 0 {
		return "no step has begun yet"
	}
	if len(keys) > 20 {
		keys = keys[:20]
	}
	return nearestOr(key, keys, "there are")
}
