package sim

import (
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// groupLimits is an operator who gives open groups a deadline, in some universes: a group has none in a flow. When it
// comes, the items that are still open must end with their group.
type groupLimits struct {
	random
	u *universe
}

// planGroupLimits uses its own random numbers, so that universes without such an operator stay as they are.
func planGroupLimits(u *universe) {
	g := &groupLimits{newRandom(u.seed, 0x6a0b), u}
	if !u.opt.NoFaults && g.chance(0.25) {
		u.after(g.span(time.Second, time.Minute), "an operator looks for groups", g.look)
	}
}

// look limits a group that has an open item, if there is one, and looks again later.
func (g *groupLimits) look() {
	u := g.u
	if u.noFaults {
		return
	}
	for _, a := range u.checker.order {
		if a.model.closed {
			continue
		}
		for i := range a.model.steps {
			s := &a.model.steps[i]
			if !s.closed && s.kind == core.KindGroup && s.toClose == 0 && a.model.groupOpen(core.StepID(i)) {
				u.clients.operate(a.id, core.Operation{
					Op: core.OpExtend, Step: core.StepID(i), Limit: policy.LimitScheduleToClose,
					To: u.clock().Add(g.span(time.Millisecond, 10*time.Second)),
				})
				break
			}
		}
	}
	u.after(g.span(time.Second, time.Minute), "an operator looks for groups", g.look)
}
