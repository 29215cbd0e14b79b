package body

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/core"
)

// A retry of a run goes back to a step that failed, and drops the decisions that the body made after it had seen the
// failure. So each decision is recorded with its causes: the failures that its branch has seen, itself or by waiting
// for another branch. As long as no step fails there is nothing to record.
//
// A branch keeps only the last links of that chain. For example, "pay" failed, and the branch went on with "refund":
//
//	the failure is seen:   causes = {Saw: [pay]}
//	"refund" is decided:   it has these causes, and those of what follows are {After: [refund]}
//	"tell" is decided:     it follows from refund, and so from the failure of pay; then {After: [tell]}

// saw notes that the branch knows the end of a step or a branch.
func (b *Branch) saw(r *Result) {
	st := r.step
	if st == nil {
		b.causes = joined(b.causes, r.branch.causes)
		b.seen.joins(&r.branch.seen)
		r.branch.read = true
		return
	}
	b.seen.sees(st)
	if st.refused {
		b.causes = joined(b.causes, cancelsOf(st.scope))
	}
	if failed(st.record.Phase) && !st.refused {
		b.causes = joined(b.causes, core.Causes{Saw: []string{st.key}})
	}
	if st.follows && prefixOf(st.key) != b.prefix {
		b.causes = joined(b.causes, core.Causes{After: []string{st.key}})
	}
}

// cancelsOf returns the cancels of a scope and of those around it.
func cancelsOf(sc *Scope) (c core.Causes) {
	for ; sc != nil; sc = sc.parent {
		if sc.cancelled {
			c.After = append(c.After, sc.key)
		}
	}
	return c
}

func failed(phase core.StepPhase) bool {
	return phase == core.StepFailed || phase == core.StepTimedOut || phase == core.StepCancelled
}

// decided notes that the branch has decided a step, in this call or before. If it is a failure, the branch's next
// decision follows from it.
func (b *Branch) decided(st *Step) {
	if len(b.causes.Saw) > 0 || len(b.causes.After) > 0 {
		st.follows = true
		b.causes = core.Causes{After: []string{st.key}}
	}
}

// joined returns causes that are in one of the two.
func joined(a, b core.Causes) core.Causes {
	union := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return core.Causes{Saw: union(a.Saw, b.Saw), After: union(a.After, b.After)}
}

func copied(c core.Causes) core.Causes { return joined(c, core.Causes{}) }
