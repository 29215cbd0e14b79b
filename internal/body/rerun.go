package body

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
)

// Rerun returns the results that a new run takes from an earlier one: those of all steps except the named ones and
// those that did not succeed. With from, one step is named, and the results of those that began before it are kept. A
// name includes its repetitions: "charge" for "charge#2". With from and no name, what the body decided after it had
// seen a failure is made again, too. Errors: CodeConflict, CodeNotFound.
func Rerun(r *core.Run, steps []string, from bool) ([]core.Kept, error) {
	if !r.Phase.Closed() {
		return nil, &api.Error{
			Code: api.CodeConflict, Op: "rerun", ID: r.ID.String(), Message: fmt.Sprintf("it is %s", r.Phase),
			Hint: "cancel it, or wait until it has ended",
		}
	}
	var follow []core.StepID
	if from && len(steps) == 0 {
		follow = core.FollowingOf(r, core.FailedSteps(r))
	}
	before := core.NoStep
	if from && len(steps) > 0 {
		s, ok := r.Lookup(steps[0])
		if !ok {
			return nil, noStep(r, steps[0])
		}
		before, steps = s.ID, nil
	}
	known := map[string]bool{}
	var keep []core.Kept
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Dropped || s.Spec.Hook || s.Spec.Type == TypeBranch || s.Spec.Type == TypeAnswer {
			continue
		}
		base, _, _ := strings.Cut(s.Spec.Name[strings.LastIndexByte(s.Spec.Name, '/')+1:], "#")
		known[base], known[s.Spec.Name] = true, true
		named := slices.Contains(steps, base) || slices.Contains(steps, s.Spec.Name)
		if s.ID < before && !named && !slices.Contains(follow, s.ID) && s.Phase == core.StepSucceeded {
			keep = append(keep, core.Kept{
				Def: -1, Spec: s.Spec, Name: s.Spec.Name, Item: -1,
				Phase: s.Phase, Output: s.Output, Actor: core.SentBy(r, s.ID),
			})
		}
	}
	for _, name := range steps {
		if !known[name] {
			return nil, noStep(r, name)
		}
	}
	return keep, nil
}

func noStep(r *core.Run, name string) error {
	return &api.Error{
		Code: api.CodeNotFound, Op: "rerun", ID: r.ID.String(), Message: fmt.Sprintf("it has no step %q", name),
	}
}
