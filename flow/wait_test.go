package flow

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
)

// TestMayDecide checks who may end a guarded wait, by an event or by an operation on its step.
func TestMayDecide(t *testing.T) {
	doc, err := Parse("pay.yaml", []byte(`
pawl: 1
name: pay
steps:
  - {name: open, wait: note}
  - {name: named, wait: {any: [approved, rejected], by: [ann, bob]}}
  - {name: second, wait: {event: second, notBy: starter}}
`))
	if err != nil {
		t.Fatal(err)
	}
	def, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	own := &core.Run{StartedBy: "ann (mallory)"}
	step := func(n int32) *core.Step { return &core.Step{Spec: &core.StepSpec{Def: n, Kind: core.KindWait}} }
	for _, c := range []struct {
		run         *core.Run
		event       string
		step        *core.Step
		actor, want string
	}{
		{own, "note", nil, "", ""},
		{own, "approved", nil, "bob", ""},
		{own, "approved", nil, "ann (bob)", ""},
		{own, "rejected", nil, "carl (ann)", "ann or bob decides this, not carl"},
		{own, "approved", nil, "", "not somebody without a name"},
		{own, "", step(1), "carl", "ann or bob decides this, not carl"},
		{own, "", step(0), "carl", ""},
		{own, "second", nil, "bob", ""},
		{own, "second", nil, "ann", "ann has started the run"},
		{own, "second", nil, "ann (bob)", "ann has started the run"},
		{own, "second", nil, "", "gives no name"},
		{own, "", step(2), "ann", "ann has started the run"},
		{&core.Run{Parent: core.Parent{Run: core.RunID{1}}}, "second", nil, "bob", "does not know its starter"},
		{&core.Run{Chain: core.Chain{Previous: core.RunID{1}}}, "second", nil, "bob", "does not know its starter"},
	} {
		got := def.MayDecide(c.run, c.event, c.step, c.actor)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s of %s: %q, want %q", c.event, c.actor, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"{event: a, by: []}": "by names nobody", "{event: a, notBy: ann}": "notBy is starter",
		"{event: 'a${{ input.x }}', by: ann}": "names are texts",
	} {
		doc, err := Parse("pay.yaml", []byte("pawl: 1\nname: pay\nsteps:\n  - {name: a, wait: "+text+"}\n"))
		if err == nil {
			_, err = Compile(doc)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
