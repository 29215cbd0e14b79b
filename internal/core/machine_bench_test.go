package core

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// chain is a definition of n task steps, one after the other.
type chain struct{ specs []*StepSpec }

func newChain(n int) *chain {
	c := &chain{}
	for i := range n {
		c.specs = append(c.specs, &StepSpec{Name: "step", Def: int32(i), Type: "noop"})
	}
	return c
}

func (c *chain) definition() *Definition {
	return &Definition{Specs: c.specs, NewDecider: func(*Run) Decider { return c }}
}

func (c *chain) Decide(r *Run, _ []StepID, _ Time) []Command {
	switch {
	case r.Closing != nil:
		return nil
	case len(r.Steps) == len(c.specs):
		return []Command{Close{Phase: RunSucceeded}}
	default:
		return []Command{Schedule{Spec: c.specs[len(r.Steps)], Item: -1, Group: NoStep}}
	}
}

func (c *chain) Match(*Run, *Step, string, *policy.Failure, []byte, Time) judge.Match {
	return judge.Match{}
}

func (c *chain) Task(*Run, *Step, Time) ([]byte, *policy.Failure) { return nil, nil }

// BenchmarkRun advances whole runs, encoding every entry as the engine does.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(map[int]string{1: "one", 10: "ten"}[n], func(b *testing.B) {
			def := newChain(n).definition()
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = benchRun(b, def, buf[:0])
			}
			b.ReportMetric(float64(len(buf)), "bytes/run")
		})
	}
}

func benchRun(b *testing.B, def *Definition, buf []byte) []byte {
	r := NewRun(RunID{1})
	feed := func(in Input) {
		out, err := Advance(r, def, in, 1_700_000_000_000_000)
		if err != nil {
			b.Fatal(err)
		}
		buf = AppendEntry(buf, &out.Entry)
	}
	feed(Start{Workflow: "chain"})
	for i := range def.Specs {
		feed(TaskStarted{Step: StepID(i), Attempt: 1, Worker: "w"})
		feed(TaskEnded{Step: StepID(i), Attempt: 1})
	}
	if !r.Phase.Closed() {
		b.Fatal(r.Phase)
	}
	return buf
}
