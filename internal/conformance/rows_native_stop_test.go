package conformance

import (
	"context"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/pawltest"
	"github.com/pawl-dev/pawl/policy"
)

// stoppingIsALadder checks that work that must stop is asked, killed after its grace, and abandoned after another one.
// The record says which and when, and the next attempt waits for it.
func stoppingIsALadder(t *testing.T) {
	for stops, next := range map[time.Duration]time.Duration{0: 3 * time.Second, 4 * time.Second: 6 * time.Second} {
		script := []try{{hang: true, stops: stops}, ok}
		const text = "pawl: 1\nname: row\n" +
			"steps: [{name: work, exec: x, retry: \"fixed(2, 1s)\", timeout: {startToClose: 2s}}]\n"
		playNative(t, text, map[string][]try{"work": script}, func(n *native) {
			n.pass(2*time.Second + time.Millisecond)
			if s := n.now().Steps[0]; s.Stopping != (stops > 0) || s.Attempts[0].Outcome != "timeout" {
				t.Errorf("stops after %s: once it was asked it shows %+v", stops, s)
			}
			s := n.end().Steps[0]
			if s.Phase != api.StepSucceeded || n.since(s.Attempts[1].StartedAt) != next || s.Attempts[0].Abandoned ||
				n.since(s.Attempts[0].StoppedAt) != 2*time.Second+stops {
				t.Errorf("stops after %s: %v, stopped at %s", stops, n.told(s), n.since(s.Attempts[0].StoppedAt))
			}
		})
	}
	stubborn(t)
	stubbornProcess(t)
	hooksWait(t)
}

// hooksWait checks that whatever ends a run, its hooks begin when the work that was told to stop is gone, or abandoned
// after its grace. The run says meanwhile how it will end, and which work stops.
func hooksWait(t *testing.T) {
	const steps = "pawl: 1\nname: row\nhooks: {onExit: {exec: x}}\n" +
		"steps: [{name: work, exec: x}, {name: beside, exec: x}]\n"
	for _, c := range []struct {
		how    string
		text   string
		cancel bool
		phase  api.RunPhase
	}{
		{"limit", steps + "timeout: 2s\n", false, api.RunTimedOut},
		{"cancel", steps, true, api.RunCancelled},
		{"failure", steps + "failFast: true\n", false, api.RunFailed},
	} {
		beside := try{hang: true}
		if c.phase == api.RunFailed {
			beside = try{run: 2 * time.Second, kind: policy.KindError}
		}
		script := map[string][]try{"work": {{hang: true, stops: 4 * time.Second}}, "beside": {beside}, "onExit": {ok}}
		playNative(t, c.text, script, func(n *native) {
			n.pass(2 * time.Second)
			if c.cancel {
				n.operate(core.Operation{Op: core.OpCancel, Step: core.NoStep})
			}
			n.pass(time.Second)
			if r := n.now(); r.Closing != c.phase || len(r.Steps) != 2 || !r.Steps[0].Stopping {
				t.Errorf("%s: a second after the end was settled the run shows closing %q, %d steps, %+v", c.how,
					r.Closing, len(r.Steps), r.Steps[0])
			}
			r := n.end()
			if len(r.Steps) != 3 || r.Phase != c.phase || n.since(r.Steps[2].Attempts[0].StartedAt) != 6*time.Second {
				t.Errorf("%s: the run ended %s, the hook began after %s", c.how, r.Phase,
					n.since(r.Steps[2].Attempts[0].StartedAt))
			}
		})
	}
}

// stubborn checks that a function that does not return when it is told to stop is abandoned after its grace.
func stubborn(t *testing.T) {
	w := pawl.Define("stubborn", func(ctx pawl.Context, _ nothing) (int, error) {
		return pawl.Step(ctx, "work", func(ctx context.Context) (int, error) {
			if n := pawl.Attempt(ctx).Number; n > 1 {
				return n, nil
			}
			<-time.After(time.Hour)
			return 0, nil
		}, pawl.Retry("fixed(2, 1s)"), pawl.AttemptTimeout("2s"))
	})
	cfg := pawl.Config{Database: goDatabase(t), Workflows: []pawl.Definition{w}}
	pawltest.RunWith(t, cfg, func(t *testing.T, e *pawltest.Env) {
		r := begin(t, embedded{e, t}, w, nothing{})
		if out, err := result(t, embedded{e, t}, r); err != nil || out != 2 {
			t.Fatal(out, err)
		}
		e.WantStarts("run", "work", 0, 2*time.Second+5*time.Second)
		if a := e.Attempts("run", "work")[0]; !a.Abandoned || a.StoppedAt.Sub(a.EndedAt) != 5*time.Second {
			t.Errorf("%+v", a)
		}
		e.Skip(time.Hour) // the function returns
	})
}

// startOfAProcess returns a limit within which a shell surely begins its script on this machine, as busy as it is now.
func startOfAProcess(t *testing.T) time.Duration {
	began := time.Now()
	for range 3 {
		if err := exec.CommandContext(t.Context(), "/bin/sh", "-c", ":").Run(); err != nil {
			t.Fatal(err)
		}
	}
	return max(300*time.Millisecond, 20*time.Since(began)).Round(time.Millisecond)
}

// stubbornProcess checks that a process that does not end when it is asked is killed after its grace.
func stubbornProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be asked to end here")
	}
	limit := startOfAProcess(t)
	for !killedAfterGrace(t, limit) && limit < time.Minute {
		limit *= 4 // the machine stood still: its shell was asked before it had begun its script
	}
}

// killedAfterGrace checks the kill of a process that has begun its script within a limit. It reports false if the
// process had not: then it ends as it is asked.
func killedAfterGrace(t *testing.T, limit time.Duration) (begun bool) {
	t.Helper()
	text := "pawl: 1\nname: row\nsteps:\n  - name: work\n" +
		"    timeout: {startToClose: " + duration.Format(limit) + "}\n" +
		"    retry: fixed(2, 1ms)\n    exec: {grace: 200ms, shell: \"trap 'echo asked' TERM; " +
		"if [ $PAWL_ATTEMPT = 1 ]; then while :; do sleep 0.05 || :; done; fi\"}\n"
	doc, err := flow.Parse("row.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	performReal(t, &dialect.Conversion{Flow: doc}, "", nil, func(s *stage, _ *core.Run) {
		n := newNative(s)
		r := n.end()
		a := r.Steps[0].Attempts
		if r.Phase != api.RunSucceeded || len(a) != 2 {
			t.Fatalf("%s %+v", r.Phase, r.Steps[0])
		}
		took := a[0].StoppedAt.Sub(a[0].EndedAt)
		if begun = a[0].Killed; !begun && limit < time.Minute {
			return
		}
		if !a[0].Killed || a[0].Abandoned || took < 200*time.Millisecond ||
			a[1].StartedAt < a[0].StoppedAt {
			t.Errorf("killed %t after %s; the next attempt began %s after it was gone", a[0].Killed, took,
				a[1].StartedAt.Sub(a[0].StoppedAt))
		}
	})
	return begun
}
