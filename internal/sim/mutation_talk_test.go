package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestChecksFindMistakesOfTalk does the same to bodies that publish their state and answer updates.
func TestChecksFindMistakesOfTalk(t *testing.T) {
	nightly.OnlyPlain(t, "it searches universes for a planted mistake")
	forgetAnswers := changeEntries(func(e *core.Entry) {
		e.Records = slices.DeleteFunc(e.Records, func(rec core.Record) bool {
			answered, ok := rec.(core.UpdateAnswered)
			return ok && answered.Carried
		})
	})
	forgetAnswers.Runs = 60 // bodies that answer and continue as new are rare
	for _, m := range []struct {
		name string
		opt  Options
	}{
		{"a body that is called again does not know what it has published", Options{
			Bodies: func(b engine.Bodies) engine.Bodies { return forgetfulBodies{b} },
		}},
		{"a published value is lost", Options{Decide: withoutCommand(func(cmd core.Command) bool {
			_, ok := cmd.(core.Publish)
			return ok
		})}},
		{"an answer is lost", Options{Decide: changeCommands(func(cmd core.Command) core.Command {
			if answer, ok := cmd.(core.AnswerUpdate); ok {
				return core.Mark{Spec: answer.Spec}
			}
			return cmd
		})}},
		{"a refused update is accepted", Options{Decide: changeCommands(func(cmd core.Command) core.Command {
			if accept, ok := cmd.(core.AcceptUpdate); ok {
				for n := 0; !refusesUpdate(accept.Payload); n++ {
					accept.Payload = fmt.Appendf(nil, `"#%d"`, n)
				}
				return accept
			}
			return cmd
		})}},
		{"the answers of a chain are forgotten", forgetAnswers},
	} {
		m.opt.Partitions = 1 // where bodies are many
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			expectViolation(t, m.opt, []Invariant{Talk})
		})
	}
}

// forgetfulBodies does not tell bodies what they have published.
type forgetfulBodies struct{ engine.Bodies }

func (b forgetfulBodies) Consult(n engine.News) (decides bool) {
	if n.Head != nil {
		head := *n.Head
		head.Points = nil
		n.Head = &head
	}
	return b.Bodies.Consult(n)
}

// changeCommands changes what bodies decide.
func changeCommands(change func(core.Command) core.Command) func(Decision) {
	return func(d Decision) {
		for i, in := range d.Call.Inputs {
			if cmds, ok := in.(core.Commands); ok {
				cmds.Commands = slices.Clone(cmds.Commands)
				for j, cmd := range cmds.Commands {
					cmds.Commands[j] = change(cmd)
				}
				d.Call.Inputs[i] = cmds
			}
		}
		d.take()
	}
}
