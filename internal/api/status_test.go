package api

import "testing"

// TestStatusOfAStep checks the word for each way in which a step may be.
func TestStatusOfAStep(t *testing.T) {
	for _, c := range []struct {
		step Step
		want Status
	}{
		{Step{Phase: StepScheduled}, StatusQueued},
		{Step{Phase: StepScheduled, Held: &Held{}}, StatusHeld},
		{Step{Phase: StepRunning}, StatusRunning},
		{Step{Phase: StepBackingOff}, StatusRetrying},
		{Step{Phase: StepBackingOff, Held: &Held{}}, StatusHeld},
		{Step{Phase: StepBackingOff, Stopping: true}, StatusStopping},
		{Step{Phase: StepSuspended, Kind: KindSleep}, StatusSleeping},
		{Step{Phase: StepSuspended, Kind: KindSleep, Type: KindSleep}, StatusWaiting},
		{Step{Phase: StepSuspended, Kind: KindFlow}, StatusWaiting},
		{Step{Phase: StepSkipped}, StatusSkipped},
		{Step{Phase: StepTimedOut, Stopping: true}, StatusTimedOut},
	} {
		if got := c.step.StatusNow(); got != c.want {
			t.Errorf("%+v is %s, want %s", c.step, got, c.want)
		}
	}
}

// TestStatusOfARun checks that a run is at what its step is at that matters, unless there is more to say of the run.
func TestStatusOfARun(t *testing.T) {
	running, retrying := &Step{Phase: StepRunning}, &Step{Phase: StepBackingOff}
	held, sleeping := &Step{Phase: StepScheduled, Held: &Held{}}, &Step{Phase: StepSuspended, Kind: KindSleep}
	group, ended := &Step{Phase: StepRunning, Kind: KindGroup}, &Step{Phase: StepFailed}
	run := func(phase RunPhase, change func(*Run), steps ...*Step) *Run {
		r := &Run{RunSummary: RunSummary{Phase: phase}, Steps: steps}
		if change != nil {
			change(r)
		}
		return r
	}
	for i, c := range []struct {
		run  *Run
		want Status
	}{
		{run(RunPending, nil), StatusQueued},
		{run(RunPending, func(r *Run) { r.Held = &Held{} }), StatusHeld},
		{run(RunRunning, nil, ended, sleeping, held, retrying, running), StatusRunning},
		{run(RunRunning, nil, ended, sleeping, held, retrying), StatusRetrying},
		{run(RunRunning, nil, sleeping, held), StatusHeld},
		{run(RunWaiting, nil, sleeping, ended), StatusSleeping},
		{run(RunRunning, nil, group, sleeping), StatusSleeping},
		{run(RunRunning, nil, ended), StatusRunning},
		{run(RunPaused, nil, running), StatusPaused},
		{run(RunRunning, func(r *Run) { r.Stopping = true }, retrying), StatusStopping},
		{run(RunRunning, func(r *Run) { r.CancelAsked = true }, retrying), StatusStopping},
		{run(RunRunning, func(r *Run) { r.Closing = RunFailed }, running), StatusStopping},
		{run(RunTimedOut, func(r *Run) { r.Stopping = true }, running), StatusTimedOut},
	} {
		if got := c.run.StatusNow(); got != c.want {
			t.Errorf("run %d is %s, want %s", i, got, c.want)
		}
	}
	row := RunSummary{Phase: RunWaiting, Retrying: true}
	if row.StatusNow() != StatusRetrying {
		t.Errorf("a row is %s", row.StatusNow())
	}
}
