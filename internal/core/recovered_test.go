package core

import (
	"testing"

	"github.com/pawl-dev/pawl/policy"
)

// TestRecoveredRemote checks that an attempt of a remote worker goes on with the next engine. One that has to announce
// itself has not reached its worker before it did, so it is made again.
func TestRecoveredRemote(t *testing.T) {
	lost := TaskEnded{Attempt: 1, Failure: &policy.Failure{Kind: policy.KindLost}}
	ready := []Input{
		Commands{Commands: []Command{Schedule{
			Spec: &StepSpec{Name: "task", Def: -1, Kind: KindTask, Type: "Send"}, Item: -1, Group: NoStep,
		}}, Waits: true},
	}
	first := append(ready, TaskStarted{Attempt: 1, Secret: 7, Confirms: true})
	second := append(first, lost, TaskStarted{Attempt: 2, Secret: 8})
	for name, c := range map[string]struct {
		before  []Input
		attempt int  // afterwards
		kept    bool // it goes on
	}{
		"the first attempt": {first, 1, true},
		"unannounced":       {second, 3, false},
		"announced":         {append(second, Beat{Attempt: 2, At: epoch.Add(1)}), 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRun(RunID{6: 0x70, 15: 9})
			stop(t, r, Start{})
			stop(t, r, c.before...)
			tasks := r.RemoteTasks()
			if (len(tasks) == 1) != c.kept || c.kept && tasks[0].Confirms != (c.attempt == 1) {
				t.Errorf("what remote workers have: %+v", tasks)
			}
			reached := map[Token]bool{}
			for _, task := range tasks {
				reached[task.Token] = true
			}
			stop(t, r, Recovered{Reached: reached})
			if s := &r.Steps[0]; s.Attempt != c.attempt || (s.Phase == StepRunning) != c.kept || s.Counted != 1 {
				t.Errorf("afterwards: attempt %d, %s, %d count", s.Attempt, s.Phase, s.Counted)
			}
		})
	}
}
