package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/judge"
	"github.com/pawl-dev/pawl/policy"
)

// forecast returns the run as it will be.
func (n *native) forecast(q api.ForecastRequest) *api.Run {
	n.t.Helper()
	r, err := n.svc.Forecast(n.t.Context(), n.root.String(), q)
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

type assumed = api.ForecastRequest

// forecastsComeTrue checks that attempts come as the forecast shows them, jitter included, and that lint's remarks on a
// policy are true.
func forecastsComeTrue(t *testing.T) {
	for settings, c := range map[string]struct {
		after  time.Duration // when the forecast is made
		script []try
		assume api.ForecastRequest
	}{
		"retry: exponential(6, 1s, max=5s, jitter=0.5)":            {1100 * time.Millisecond, []try{broken}, assumed{}},
		"retry: exponential(7, 1s, max=30s, jitter=decorrelated)":  {0, []try{broken}, assumed{}},
		"retry: exponential(unlimited, 1s, jitter=1); timeout: 1m": {2 * time.Second, []try{broken}, assumed{}},
		"retry: exponential(9, 1s); timeout: {startToClose: 3s}":   {time.Second, []try{hangs}, assumed{Hang: true}},
		"retry: exponential(9, 1s, jitter=0.2); timeout: {deadline: 1m}": {
			5 * time.Second,
			[]try{{run: 2 * time.Second, kind: policy.KindError}},
			api.ForecastRequest{FailsAfter: api.Duration(2 * time.Second)},
		},
	} {
		text := "pawl: 1\nname: row\nsteps:\n  - name: work\n    exec: x\n    " +
			strings.ReplaceAll(settings, "; ", "\n    ")
		playNative(t, text, map[string][]try{"work": c.script}, func(n *native) {
			n.pass(c.after)
			before := n.now()
			foreseen := n.forecast(c.assume)
			if after := n.now(); after.Events != before.Events {
				t.Errorf("%s: a forecast has made events", settings)
			}
			want, got := n.told(foreseen.Steps[0]), n.told(n.end().Steps[0])
			if !slices.Equal(got, want) || len(got) < 4 {
				t.Errorf("%s\nforeseen:\n  %s\nreal:\n  %s", settings, joined(want), joined(got))
			}
		})
		simulatedAsReal(t, settings)
	}
	lintIsTrue(t)
}

// simulatedAsReal checks that a simulation of the policy has the attempts of a real run, where jitter is the longest
// delay.
func simulatedAsReal(t *testing.T, settings string) {
	t.Helper()
	settings = strings.NewReplacer(", jitter=0.5", "", ", jitter=decorrelated", "", ", jitter=1", "",
		", jitter=0.2", "").Replace(settings)
	doc, err := flow.Parse("row.yaml", []byte("pawl: 1\nname: row\nsteps:\n  - name: work\n    exec: x\n    "+
		strings.ReplaceAll(settings, "; ", "\n    ")))
	if err != nil {
		t.Fatal(err)
	}
	def, err := flow.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := core.Simulate(core.Scenario{Policy: def.Spec(0).Policy, Script: []core.Act{{End: "error"}}})
	if err != nil {
		t.Fatal(err)
	}
	playStep(t, settings, []try{broken}, func(n *native, _ *api.Run, s *api.Step) {
		for i, a := range s.Attempts {
			if i >= len(sim.Attempts) || n.since(a.ReadyAt) != sim.Attempts[i].At {
				t.Errorf("%s: attempt %d at %s, simulated %+v", settings, i+1, n.since(a.ReadyAt), sim.Attempts)
				return
			}
		}
		if len(s.Attempts) != len(sim.Attempts) || string(s.Phase) != sim.Phase.String() ||
			s.Reason != sim.Reason.String() || n.since(s.EndedAt) != sim.At {
			t.Errorf("%s: %s %s at %s, simulated %+v", settings, s.Phase, s.Reason, n.since(s.EndedAt), sim)
		}
	})
}

// lintIsTrue checks that lint says from which attempt on a policy's attempts can never start, and none of them starts.
func lintIsTrue(t *testing.T) {
	retry, err := policy.DecodeRetry("exponential(6, 10s)")
	if err != nil {
		t.Fatal(err)
	}
	p := policy.Policy{Retry: retry}
	p.ScheduleToClose = &policy.Limit{After: time.Minute}
	var said string
	for _, f := range judge.Lint(&p, 0) {
		said += f.Message + "\n"
	}
	playStep(t, "retry: exponential(6, 10s); timeout: 1m", []try{broken}, func(_ *native, _ *api.Run, s *api.Step) {
		never := fmt.Sprintf("attempt %d", len(s.Attempts)+1)
		if s.Reason != "no_time_left" || !strings.Contains(said, never) {
			t.Errorf("%d attempts started (%s); lint says %q", len(s.Attempts), s.Reason, said)
		}
	})
}

// openRunsAreChanged checks that the deadlines and policies of an open run can be moved and replaced. Before that the
// caller sees what will follow from it, and afterwards the history says who did it and why.
func openRunsAreChanged(t *testing.T) {
	const text = "pawl: 1\nname: row\ntimeout: 1m\nsteps:\n" +
		"  - {name: work, exec: x, timeout: 30s, retry: \"fixed(unlimited, 8s)\"}\n"
	retry, err := policy.DecodeRetry("exponential(9, 5s, jitter=0.3)")
	if err != nil {
		t.Fatal(err)
	}
	replaced := policy.Policy{Retry: retry}
	replaced.ScheduleToClose = &policy.Limit{After: 45 * time.Second}
	for name, c := range map[string]struct {
		op      api.Operation
		longest time.Duration // how long the step may take then
	}{
		"nothing":  {api.Operation{}, 30 * time.Second},
		"a policy": {api.Operation{Operation: api.OpSetPolicy, Step: "work", Policy: &replaced}, 45 * time.Second},
		"more time": {api.Operation{
			Operation: api.OpExtend, Step: "work", By: api.Extension(15 * time.Second),
		}, 45 * time.Second},
		"no deadline": {api.Operation{Operation: api.OpExtend, Step: "work", Remove: true}, time.Minute},
		"a short run": {api.Operation{Operation: api.OpExtend, By: api.Extension(-40 * time.Second)}, 20 * time.Second},
	} {
		playNative(t, text, map[string][]try{"work": {broken}}, func(n *native) {
			n.pass(10 * time.Second)
			var q api.ForecastRequest
			if c.op.Operation != "" {
				c.op.Actor, c.op.Reason = "ada", "to see"
				q.Operation = &c.op
			}
			foreseen := n.forecast(q)
			if s := n.now(); n.since(s.Steps[0].ScheduleToClose) != 30*time.Second || len(s.Operations) != 0 {
				t.Errorf("%s: a forecast has changed the run: %+v", name, s.Operations)
			}
			if c.op.Operation != "" {
				if err := n.svc.Operate(n.t.Context(), n.root.String(), c.op); err != nil {
					t.Fatal(err)
				}
			}
			r := n.end()
			want, got := n.told(foreseen.Steps[0]), n.told(r.Steps[0])
			if !slices.Equal(got, want) {
				t.Errorf("%s:\nforeseen:\n  %s\nreal:\n  %s", name, joined(want), joined(got))
			}
			last := r.Steps[0].Attempts[len(r.Steps[0].Attempts)-1].StartedAt
			if n.since(last) >= c.longest || n.since(last) < c.longest-16*time.Second {
				t.Errorf("%s: the last attempt began after %s", name, n.since(last))
			}
			if c.op.Operation == "" {
				return
			}
			if len(r.Operations) != 1 || r.Operations[0].Actor != "ada" || r.Operations[0].Reason != "to see" ||
				r.Operations[0].Operation != c.op.Operation || len(r.Operations[0].Deadlines) != 1 {
				t.Errorf("%s: recorded as %+v", name, r.Operations)
			}
		})
	}
	playNative(t, text, map[string][]try{"work": {broken}}, func(n *native) {
		for name, op := range map[string]api.Operation{
			"what cannot be done": {Operation: api.OpResume}, "no such step": {Operation: api.OpNow, Step: "other"},
		} {
			real := n.svc.Operate(n.t.Context(), n.root.String(), op)
			_, err := n.svc.Forecast(n.t.Context(), n.root.String(), api.ForecastRequest{Operation: &op})
			if err == nil || real == nil || api.CodeOf(err) != api.CodeOf(real) || err.Error() != real.Error() {
				t.Errorf("%s: %v, but foreseen %v", name, real, err)
			}
		}
		n.operate(core.Operation{Op: core.OpTerminate, Step: core.NoStep})
		n.end()
	})
}
