package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestChecksFindMistakesOfStops does the same to bodies that cancel parts of themselves or are asked to stop.
func TestChecksFindMistakesOfStops(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	for _, m := range []struct {
		name string
		opt  Options
		see  []Invariant
	}{
		{"a body decides that does not know that its run stops", Options{Decide: func(d Decision) {
			cancelBefore(d)
			pretend(&d)
			d.take()
		}}, []Invariant{Decided}},
		{"the steps of a cancelled scope go on", Options{Decide: withoutCommand(func(cmd core.Command) bool {
			_, cancel := cmd.(core.CancelStep)
			return cancel
		})}, []Invariant{NoHang}},
		{"the cancel of a scope is not recorded", Options{Decide: withoutCommand(func(cmd core.Command) bool {
			mark, ok := cmd.(core.Mark)
			return ok && strings.Contains(mark.Spec.Name, "scope[")
		})}, []Invariant{Decided}},
	} {
		m.opt.Partitions = 1 // where bodies are many
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, m.opt, m.see)
		})
	}
}

// cancelBefore cancels a run just before its body is heard that begins a step after another.
func cancelBefore(d Decision) {
	decided := false
	d.Partition.Each(func(r *core.Run) { decided = decided || r.ID == d.Call.Run && len(r.Steps) > 0 })
	if !decided {
		return
	}
	for _, in := range d.Call.Inputs {
		cmds, _ := in.(core.Commands)
		for _, cmd := range cmds.Commands {
			if s, ok := cmd.(core.Schedule); ok && !s.Spec.Detached {
				op := core.Operation{Op: core.OpCancelGracefully, Step: core.NoStep}
				d.Partition.Handle(&engine.InputCall{Run: d.Call.Run, Input: op}, d.At)
				return
			}
		}
	}
}

// pretend lets a body that was called before its run stopped say that it knows of that.
func pretend(d *Decision) {
	d.Partition.Each(func(r *core.Run) {
		if r.ID != d.Call.Run || !r.Ending() {
			return
		}
		for i, in := range d.Call.Inputs {
			if cmds, ok := in.(core.Commands); ok && !cmds.Stopping {
				cmds.Stopping = true
				d.Call.Inputs[i], d.Call.Body = cmds, engine.NewBody(d.Current)
			}
		}
	})
}

// withoutCommand drops some commands of what bodies decide.
func withoutCommand(drop func(core.Command) bool) func(Decision) {
	return func(d Decision) {
		for i, in := range d.Call.Inputs {
			if cmds, ok := in.(core.Commands); ok {
				cmds.Commands = slices.DeleteFunc(cmds.Commands, drop)
				d.Call.Inputs[i] = cmds
			}
		}
		d.take()
	}
}
