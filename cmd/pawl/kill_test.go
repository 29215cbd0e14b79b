package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// killed is a run as run show tells it.
type killed struct {
	Phase       string       `json:"phase"`
	RunDeadline string       `json:"runDeadline"`
	Steps       []killedStep `json:"steps"`
}

type killedStep struct {
	Step            string          `json:"step"`
	Phase           string          `json:"phase"`
	ScheduledAt     string          `json:"scheduledAt"`
	EndedAt         string          `json:"endedAt"`
	NextAt          string          `json:"nextAt"`
	ScheduleToClose string          `json:"scheduleToCloseDeadline"`
	Deadline        string          `json:"deadline"`
	Attempts        []killedAttempt `json:"attempts"`
}

type killedAttempt struct {
	StartedAt string `json:"startedAt"`
	Child     string `json:"child"`
	EndedAt   string `json:"endedAt"`
	Outcome   string `json:"outcome"`
}

func (r killed) step(name string) killedStep {
	i := slices.IndexFunc(r.Steps, func(s killedStep) bool { return s.Step == name })
	if i < 0 {
		return killedStep{}
	}
	return r.Steps[i]
}

// begun reports whether the step's last attempt runs.
func (s killedStep) begun() bool {
	n := len(s.Attempts)
	return n > 0 && s.Attempts[n-1].StartedAt != "" && s.Attempts[n-1].EndedAt == ""
}

// block is shell that waits for the file go, having said that it began.
const block = `'echo work >> effects; while [ ! -e go ]; do sleep 0.02; done'`

// TestKillDuring kills the real binary with -9 while a step does each of the things that a step can do, and goes on.
// Every stored instant is where it was, nothing that had finished runs again, and what was in flight is repeated at
// once.
func TestKillDuring(t *testing.T) {
	nightly.Only(t, "it kills processes for a while")
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			<-r.Context().Done() // the first one hangs, until its client is killed
		}
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		name, work string // the name of the case, and the action of its step
		hooks      string
		ready      func(r killed) bool // condition for the kill
		attempts   int                 // the step's attempts in the end
		end        string              // the run's phase, in the end
		event      bool                // the event that it waits for is sent meanwhile
		check      func(t *testing.T, before, after killed)
	}{
		{name: "exec", work: "exec: " + block, attempts: 2, end: "succeeded"},
		{
			name: "http", work: "http: " + server.URL, attempts: 2, end: "succeeded",
			ready: func(r killed) bool { return r.step("work").begun() && requests.Load() > 0 },
		},
		{
			name: "backoff", work: `exec: {shell: 'echo work >> effects; test -e go'}` +
				"\n    retry: fixed(3, 1500ms)", attempts: 2, end: "succeeded",
			ready: func(r killed) bool { return r.step("work").Phase == "backing_off" },
			check: func(t *testing.T, before, after killed) {
				if next, started := before.step("work").NextAt,
					after.step("work").Attempts[1].StartedAt; started < next {
					t.Errorf("the attempt that was due at %s began at %s", next, started)
				}
			},
		},
		{
			name: "wait", work: "wait: go", attempts: 0, end: "succeeded", event: true,
			ready: func(r killed) bool { return r.step("work").Phase == "suspended" },
			check: func(t *testing.T, before, _ killed) {
				if before.step("work").NextAt == "" {
					t.Error("the wait has no deadline")
				}
			},
		},
		{
			name: "sleep", work: "sleep: 1500ms", attempts: 0, end: "succeeded",
			ready: func(r killed) bool { return r.step("work").Phase == "suspended" },
			check: func(t *testing.T, before, after killed) {
				if until, ended := before.step("work").NextAt, after.step("work").EndedAt; ended < until ||
					after.step("work").NextAt != until {
					t.Errorf("the sleep until %s is one until %s and ended at %s", until,
						after.step("work").NextAt, ended)
				}
			},
		},
		{
			name: "hook", work: "fail: on purpose",
			hooks:    "hooks:\n  onFailure: {name: cleanup, exec: " + block + "}\n",
			attempts: 1, end: "failed",
			ready: func(r killed) bool { return r.step("cleanup").begun() },
			check: func(t *testing.T, _, after killed) {
				if got := outcomes(after.step("cleanup")); !reflect.DeepEqual(got, []string{"lost", "succeeded"}) {
					t.Errorf("the hook's attempts ended %v", got)
				}
			},
		},
		{
			name: "child", work: "flow: child", attempts: 1, end: "succeeded",
			ready: func(r killed) bool { return r.step("work").begun() },
			check: func(t *testing.T, before, after killed) {
				if was, is := before.step("work").Attempts[0].Child, after.step("work").Attempts[0].Child; was == "" ||
					was != is {
					t.Errorf("the child run was %q and is %q", was, is)
				}
			},
		},
		{
			name: "forEach", work: "forEach: [1, 2, 3, 4, 5, 6]\n    concurrency: 2\n" +
				`    exec: 'echo "$PAWL_STEP" >> effects; [ "$PAWL_STEP" = "work[0]" ] || ` +
				`while [ ! -e go ]; do sleep 0.02; done'`,
			end: "succeeded",
			ready: func(r killed) bool {
				return r.step("work[0]").Phase == "succeeded" && r.step("work[1]").begun() && r.step("work[2]").begun()
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.ready == nil {
				c.ready = func(r killed) bool { return r.step("work").begun() }
			}
			dir, before := killWhen(t, c.ready, map[string]string{
				"flow.yaml": "pawl: 1\nname: killed\ntimeout: 20m\ndefaults: {timeout: {startToClose: 5m, " +
					"scheduleToClose: 10m, deadline: 8m, wait: 9m}}\nsteps:\n" +
					"  - name: before\n    exec: 'echo before >> effects'\n  - name: work\n    needs: before\n    " +
					c.work + "\n  - name: after\n    needs: work\n    noop:\n" + c.hooks,
				"child.yaml": "pawl: 1\nname: child\nsteps:\n  - name: first\n    exec: 'echo first >> effects'\n" +
					"  - name: inner\n    needs: first\n    exec: " + block + "\n",
			})
			if c.event {
				if out, err := command(t, dir, "event", "send", "k", "go").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			write(t, dir, "go", "")
			out, err := command(t, dir, "resume", "k").CombinedOutput()
			after := shownRun(t, dir)
			if after.Phase != c.end || (err == nil) != (c.end == "succeeded") {
				t.Fatalf("the run is %s: %v\n%s", after.Phase, err, out)
			}
			compareKilled(t, before, after)
			if n := len(after.step("work").Attempts); n != c.attempts {
				t.Errorf("the step took %d attempts, want %d", n, c.attempts)
			}
			if c.check != nil {
				c.check(t, before, after)
			}
			effects, err := os.ReadFile(filepath.Join(dir, "effects"))
			if err != nil {
				t.Fatal(err)
			}
			for _, once := range []string{"before\n", "first\n", "work[0]\n"} {
				if n := strings.Count("\n"+string(effects), "\n"+once); n > 1 {
					t.Errorf("%q had finished and was done %d times", once, n)
				}
			}
		})
	}
}

func outcomes(s killedStep) []string {
	var out []string
	for _, a := range s.Attempts {
		out = append(out, a.Outcome)
	}
	return out
}

func shownRun(t *testing.T, dir string) killed {
	t.Helper()
	var r killed
	if out, err := command(t, dir, "run", "show", "k", "-o", "json").Output(); err == nil {
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// killWhen starts the run, kills the process with -9 once it has come to the point, and returns its folder and what is
// on disk then. Where the process was past the point before the kill came, it is done again in another folder.
func killWhen(t *testing.T, ready func(killed) bool, files map[string]string) (string, killed) {
	t.Helper()
	for from := time.Now(); time.Since(from) < patience; {
		dir := t.TempDir()
		for name, text := range files {
			write(t, dir, name, text)
		}
		cmd := command(t, dir, "run", "flow.yaml", "--id", "k")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan struct{})
		go func() {
			defer close(exited)
			_ = cmd.Wait() // it is killed, or it was too fast
		}()
		for over := false; !over && time.Since(from) < patience && !ready(shownRun(t, dir)); {
			select {
			case <-exited:
				over = true
			default:
			}
		}
		_ = cmd.Process.Kill() // it may have ended
		<-exited
		if r := shownRun(t, dir); ready(r) {
			return dir, r
		}
	}
	t.Fatal("no process was killed at the point")
	return "", killed{}
}

// compareKilled holds the stored instants, and all of what had ended, against what they were.
func compareKilled(t *testing.T, before, after killed) {
	t.Helper()
	if before.RunDeadline == "" || before.RunDeadline != after.RunDeadline {
		t.Errorf("the run's deadline was %s and is %s", before.RunDeadline, after.RunDeadline)
	}
	for _, was := range before.Steps {
		is := after.step(was.Step)
		if was.ScheduledAt != is.ScheduledAt || was.ScheduleToClose != is.ScheduleToClose ||
			was.Deadline != is.Deadline && was.Deadline != "" {
			t.Errorf("step %s: its instants were %+v and are %+v", was.Step, was, is)
		}
		if was.EndedAt != "" && !reflect.DeepEqual(was, is) {
			t.Errorf("step %s had ended as %+v and has now ended as %+v", was.Step, was, is)
		}
	}
}
