package sim

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// servicesOf returns the limits that the definition of a program gives its services: those that flow files give them.
func servicesOf() map[string]*policy.QueueLimits {
	out := map[string]*policy.QueueLimits{}
	for name, l := range serviceLimits {
		out[name] = &l
	}
	return out
}

// useServices makes tasks of some programs use a service. It uses its own random numbers, so that the other programs
// stay as they are.
func useServices(p *program, n int) {
	own := newRandom(uint64(n), 0x5e42)
	if !own.chance(0.5) {
		return
	}
	p.services = servicesOf()
	shareActions(own, p.main)
	shareActions(own, p.undo)
}

func shareActions(own random, actions []action) {
	for i := range actions {
		act := &actions[i]
		if act.kind <= doBegin && act.spec.Kind == core.KindTask && act.spec.Type != "" && own.chance(0.5) {
			s := &core.Share{Service: pick(own, []string{"mail", "fax", "bank", "shop", "shop", "ship"})}
			if own.chance(0.5) {
				s.Key = pick(own, []string{"k1", "k2", "k3"})
			}
			act.spec.Share = s
		}
		shareActions(own, act.then)
		for _, part := range act.parts {
			shareActions(own, part)
		}
	}
}
