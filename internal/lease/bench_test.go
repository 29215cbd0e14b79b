package lease

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/internal/body"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/policy"
)

// BenchmarkTold encodes and decodes what is told of runs with a few steps: some at once, and one alone.
func BenchmarkTold(b *testing.B) {
	spec := &core.StepSpec{
		Name: "charge the card", Def: -1, Type: body.TypeLocal,
		Policy: policy.Policy{Retry: &policy.Retry{
			MaxAttempts: 3, InitialInterval: 1e9, BackoffCoefficient: 2, On: []policy.Kind{policy.KindFailed},
		}},
		Input: []byte(`{"order":"1042","amount":1250}`),
	}
	step := engine.Step{
		Spec: spec, Phase: core.StepSucceeded, Attempts: 1, ScheduledAt: 1782867311950417, EndedAt: 1782867311960417,
		Output: []byte(`{"receipt":"r-77"}`),
	}
	for _, n := range []int{1, 50} {
		downs, ups := make([]down, n), make([]up, n)
		for i := range n {
			run := core.RunID{byte(i), 1}
			downs[i] = down{Kind: downNews, Run: run, Lease: 7, News: &engine.News{
				Run: run, Whole: true, Head: &engine.Head{
					Workflow: "order", Input: spec.Input, CreatedAt: 1782867311950417, StartedAt: 1782867311950417,
				}, Steps: []engine.Step{step, step},
			}}
			ups[i] = up{Kind: upDecide, Run: run, Lease: 7, Inputs: []core.Input{
				core.TaskEnded{Step: 1, Attempt: 1, Output: step.Output},
				core.Commands{Waits: true, Commands: []core.Command{
					core.Schedule{Spec: spec, Item: -1, Group: core.NoStep},
				}},
			}}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchTold(b, downs, ups)
			}
		})
	}
}

func benchTold(b *testing.B, downs []down, ups []up) {
	b.Helper()
	text, _, err := encodeDowns(downs)
	if err != nil {
		b.Fatal(err)
	}
	gotDowns, err := decodeDowns(text)
	if err != nil {
		b.Fatal(err)
	}
	text, _, err = encodeUps(ups)
	if err != nil {
		b.Fatal(err)
	}
	gotUps, err := decodeUps(text)
	if err != nil || len(gotDowns) != len(downs) || len(gotUps) != len(ups) {
		b.Fatal(err)
	}
}
