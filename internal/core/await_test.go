package core

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// TestUnexpectedEvent checks that an event is refused whose name no wait of the definition has, with the name that was
// meant, and kept if the caller asks for that. Where a step works the name out, any name will do.
func TestUnexpectedEvent(t *testing.T) {
	approval := &StepSpec{Name: "approval", Kind: KindWait, Event: "approved"}
	worked := &StepSpec{Name: "any", Kind: KindWait}
	task := &StepSpec{Name: "a", Kind: KindTask}
	rain := ExpectedSignal{SignalReceived{Name: "rain"}}
	for _, c := range []struct {
		specs []*StepSpec
		in    Input
		want  string // part of the error; empty: it is taken
	}{
		{[]*StepSpec{approval}, ExpectedSignal{SignalReceived{Name: "aproved"}}, `did you mean "approved"?`},
		{[]*StepSpec{approval}, rain, "no step waits for \"rain\", but for approved"},
		{[]*StepSpec{task}, rain, "no step waits for an event"},
		{[]*StepSpec{approval}, ExpectedSignal{SignalReceived{Name: "approved"}}, ""},
		{[]*StepSpec{approval}, SignalReceived{Name: "aproved"}, ""},
		{[]*StepSpec{approval, worked}, ExpectedSignal{SignalReceived{Name: "aproved"}}, ""},
	} {
		def := &Definition{Specs: c.specs, NewDecider: func(*Run) Decider { return idle{} }}
		r := NewRun(RunID{15: 1})
		if _, err := Advance(r, def, Start{Workflow: "w"}, 1); err != nil {
			t.Fatal(err)
		}
		_, err := Advance(r, def, c.in, 2)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.in, err, c.want)
		}
		if kept := len(r.Signals); kept == 1 != (err == nil) {
			t.Errorf("%+v: %d events are kept", c.in, kept)
		}
	}
}

// idle decides nothing.
type idle struct{}

func (idle) Decide(*Run, []StepID, Time) []Command            { return nil }
func (idle) Task(*Run, *Step, Time) ([]byte, *policy.Failure) { return nil, nil }
func (idle) Match(*Run, *Step, string, *policy.Failure, []byte, Time) judge.Match {
	return judge.Match{}
}
