package sim

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
)

// codeChange gives some processes of some universes changed code: the branches of its programs have other names. A run
// whose history has a branch of the old name must wait there, and nothing that the changed code decides beside it may
// be recorded. A run without one goes on with the new names. When the faults end, the new code knows from the history
// which names a run uses. Then every run must go on.
type codeChange struct {
	random
	u       *universe
	planted bool
}

// newCodeChange uses random numbers of its own, so that universes without the change do not change.
func newCodeChange(u *universe) *codeChange {
	c := &codeChange{random: newRandom(u.seed, 0xc0de), u: u}
	c.planted = !u.opt.NoFaults && c.chance(0.3)
	return c
}

// inNewProcess decides whether a process that begins has the changed code.
func (c *codeChange) inNewProcess() bool { return c.planted && !c.u.noFaults && c.chance(0.5) }

// hasDecided reports whether the changed code has begun branches of a run.
func (c *codeChange) hasDecided(run core.RunID) bool {
	a := c.u.checker.accounts[run]
	renamed := func(s core.Step) bool { return isRenamed(s.Spec) }
	return c.planted && a != nil && slices.ContainsFunc(a.state.Steps, renamed)
}

// renamedPart is in the names of branches in the changed code, after the name of the action.
const renamedPart = "q"

func isRenamed(spec *core.StepSpec) bool {
	name := spec.Name[len(branchOf(spec.Name)):]
	return spec.Type == body.TypeBranch && strings.Contains(name, renamedPart)
}
