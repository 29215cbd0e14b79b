package main

import (
	"fmt"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/internal/api"
)

// findStep looks a step up by its key, with the nearest one where there is none of that name.
func findStep(r *api.Run, key string) (*api.Step, error) {
	for _, s := range r.Steps {
		named := s.ItemName != "" && s.Name+"["+s.ItemName+"]" == key
		if (s.Step == key || named) && !s.Superseded {
			return s, nil
		}
	}
	short := live.Short(r.Run)
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
