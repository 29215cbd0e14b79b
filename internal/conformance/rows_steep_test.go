package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/steep"
	"github.com/pawl-dev/pawl/internal/core"
)

func init() {
	addDialect("S1", steepDurations)
	addDialect("S2", steepTimeoutForms)
	addDialect("S3", steepNesting)
	addDialect("S3", steepClocks)
	addDialect("S4", steepShortest)
	addDialect("S5", steepOverride)
	addDialect("S6", steepAttempts)
	addDialect("S6", steepNoAttempt)
	addDialect("S7", steepDelays)
	addDialect("S8", steepMaxDelay)
	addDialect("S9", steepCancel)
}

// steepFlow makes a workflow of one action, with policies of its own and of its service.
func steepFlow(t *testing.T, service, action string) *dialect.Conversion {
	t.Helper()
	indent := func(text string) string {
		out := ""
		for line := range strings.Lines(text) {
			out += "  " + line
		}
		return out + "\n"
	}
	c, err := steep.Convert(steep.Sources{
		Workflow: steep.Source{
			Name: "workflow.yaml",
			Text: []byte("api: 4.7.0\nname: w\nactions:\n- type: execute\n  id: work\n  service: s\n" +
				indent(action)),
		},
		Services: []steep.Source{{
			Name: "services.yaml",
			Text: []byte("- id: s\n  name: S\n  description: d\n  path: ./s\n  runtime: other\n  parameters: []\n" +
				indent(service)),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// steepDurations checks that a deadline in each of the page's notations and units cancels at that very instant.
func steepDurations(t *testing.T) {
	cases := map[string]time.Duration{
		"3 secs": 3 * time.Second, "10h 30 minutes": 10*time.Hour + 30*time.Minute, "1 hour 10minutes 5s": time.Hour +
			10*time.Minute + 5*time.Second,
		"1d 5h": 29 * time.Hour, "10 days 1hrs 30m 15 secs": 241*time.Hour + 30*time.Minute + 15*time.Second,
		"250": 250 * time.Millisecond,
	}
	for unit, names := range map[time.Duration]string{
		time.Millisecond: "milliseconds millisecond millis milli ms", time.Second: "seconds second secs sec s",
		time.Minute: "minutes minute mins min m", time.Hour: "hours hour hrs hr h", 24 * time.Hour: "days day d",
	} {
		for _, name := range strings.Fields(names) {
			cases["2 "+name] = 2 * unit
		}
	}
	for text, want := range cases {
		if text == "250" {
			text = "250 # without a unit it is milliseconds"
		}
		perform(t, steepFlow(t, "", "deadline: "+text), map[string][]try{"work": {hangs}}, nil,
			func(s *stage, r *core.Run) {
				if got := r.EndedAt.Std().Sub(s.began); got != want {
					t.Errorf("deadline: %s ended the run after %s, want %s", text, got, want)
				}
			})
	}
}

func steepTimeoutForms(t *testing.T) {
	for text, want := range map[string]string{
		"maxRuntime: 5m":                                     "CANCELLED",
		"maxRuntime: {timeout: 5m}":                          "CANCELLED",
		"maxRuntime: {timeout: 5m, errorOnTimeout: false}":   "CANCELLED",
		"maxRuntime: {timeout: 5m, errorOnTimeout: true}":    "ERROR",
		"maxInactivity: 5m":                                  "CANCELLED",
		"maxInactivity: {timeout: 5m, errorOnTimeout: true}": "ERROR",
		"deadline: 5m":                                       "CANCELLED",
		"deadline: {timeout: 5m, errorOnTimeout: true}":      "ERROR",
	} {
		perform(t, steepFlow(t, text, ""), map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
			if got := s.steepStatus(r); got != want {
				t.Errorf("%s: %s, want %s", text, got, want)
			}
			if s.stops != 1 {
				t.Errorf("%s: %d attempts were told to stop, want 1", text, s.stops)
			}
		})
	}
}

func steepNesting(t *testing.T) {
	retries := "retries: {maxAttempts: 3, delay: 1m}\n"
	// Expired runtimes and silences are failed attempts; the last one decides.
	c := steepFlow(t, retries+"maxRuntime: {timeout: 10m, errorOnTimeout: true}\nmaxInactivity: 2m", "")
	perform(t, c, map[string][]try{"work": {{hang: true, lines: steadily(time.Minute, 20)}, hangs, hangs}}, nil,
		func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-10m timeout startToClose", "work@11m-13m timeout inactivity",
				"work@14m-16m timeout inactivity")
			if got := s.steepStatus(r); got != "CANCELLED" {
				t.Errorf("status %s: the last attempt's silence cancels", got)
			}
		})
	// A deadline spans the attempts and is never retried, running or in a delay.
	c = steepFlow(t, retries+"deadline: {timeout: 90s, errorOnTimeout: true}", "")
	perform(t, c, map[string][]try{"work": {{run: 10 * time.Second, kind: broken.kind}, hangs}}, nil,
		func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-10s error", "work@1m10s-1m30s timeout deadline")
			if got := s.steepStatus(r); got != "ERROR" {
				t.Errorf("status %s, want ERROR", got)
			}
		})
}

// steepClocks checks that all three clocks start when the first attempt starts, after 5m of waiting for a worker here.
// maxRuntime and maxInactivity start anew with each attempt; the deadline goes on, also in the delay between them.
func steepClocks(t *testing.T) {
	busy := func(text string) *dialect.Conversion {
		return steepConversion(t, "api: 4.7.0\nname: w\nactions:\n"+
			"  - {type: execute, id: before, service: b}\n  - {type: execute, id: work, service: s, "+text+"}\n",
			"- {id: b, path: ./b, runtime: other}\n- {id: s, path: ./s, runtime: other}\n", "")
	}
	retries := ", retries: {maxAttempts: 2, delay: 1m}"
	first := try{run: 2 * time.Minute, kind: broken.kind, lines: steadily(time.Minute, 2)}
	second := try{run: 2 * time.Minute, lines: steadily(time.Minute, 2)}
	for text, c := range map[string]struct{ want, status string }{
		"maxRuntime: 3m":          {"work@8m-10m ok", "SUCCESS"},
		"maxRuntime: 119s":        {"work@7m59s-9m58s timeout startToClose", "CANCELLED"},
		"maxInactivity: 90s":      {"work@8m-10m ok", "SUCCESS"},
		"maxInactivity: 59s":      {"work@6m59s-7m58s timeout inactivity", "CANCELLED"},
		"deadline: 5m30s":         {"work@8m-10m ok", "SUCCESS"},
		"deadline: 4m":            {"work@8m-9m timeout deadline", "CANCELLED"},
		"deadline: {timeout: 4m}": {"work@8m-9m timeout deadline", "CANCELLED"},
	} {
		script := map[string][]try{"before": {{run: 5 * time.Minute}}, "work": {first, second}}
		perform(t, busy(text+retries), script, nil, func(s *stage, r *core.Run) {
			lines := s.attempts()
			if got := lines[len(lines)-1]; got != c.want || s.steepStatus(r) != c.status {
				t.Errorf("%s: %s, %s\nwant %s, %s", text, got, s.steepStatus(r), c.want, c.status)
			}
		}, func(s *stage) { s.slots = 1 })
	}
}

func steadily(every time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(i+1) * every
	}
	return out
}

func steepShortest(t *testing.T) {
	both := "maxInactivity: 5m\ndeadline: {timeout: 1h, errorOnTimeout: true}"
	perform(t, steepFlow(t, both, ""), map[string][]try{"work": {{hang: true, lines: steadily(4*time.Minute, 30)}}},
		nil, func(s *stage, r *core.Run) {
			s.wantAttempts("work@0ms-1h timeout deadline")
			if got := s.steepStatus(r); got != "ERROR" {
				t.Errorf("status %s, want ERROR", got)
			}
		})
	perform(t, steepFlow(t, both, ""), map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-5m timeout inactivity")
		if got := s.steepStatus(r); got != "CANCELLED" {
			t.Errorf("status %s, want CANCELLED", got)
		}
	})
}

func steepOverride(t *testing.T) {
	c := steepFlow(t, "maxRuntime: {timeout: 1m, errorOnTimeout: true}\nretries: {maxAttempts: 2, delay: 7s}",
		"maxRuntime: 2m")
	perform(t, c, map[string][]try{"work": {hangs}}, nil, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-2m timeout startToClose", "work@2m7s-4m7s timeout startToClose")
		if got := s.steepStatus(r); got != "CANCELLED" {
			t.Errorf("status %s: the action's policy drops the service's errorOnTimeout", got)
		}
	})
	c = steepFlow(t, "retries: {maxAttempts: 5, delay: 7s}", "retries: {maxAttempts: 2}")
	perform(t, c, map[string][]try{"work": {broken}}, nil, func(s *stage, _ *core.Run) {
		s.wantAttempts("work@0ms-0ms error", "work@0ms-0ms error")
	})
}

func steepAttempts(t *testing.T) {
	for text, want := range map[string]struct {
		attempts int
		status   string
	}{
		"":                          {1, "ERROR"},
		"retries: {}":               {1, "ERROR"},
		"retries: {maxAttempts: 3}": {3, "ERROR"},
		"retries: {maxAttempts: 0}": {0, "SUCCESS"},
	} {
		perform(t, steepFlow(t, text, ""), map[string][]try{"work": {broken}}, nil, func(s *stage, r *core.Run) {
			if got := len(s.attempts()); got != want.attempts || s.steepStatus(r) != want.status {
				t.Errorf("%q: %d attempts, %s; want %d, %s", text, got, s.steepStatus(r), want.attempts, want.status)
			}
			if d := r.EndedAt.Std().Sub(s.began); d != 0 {
				t.Errorf("%q: the default delay is 0, it took %s", text, d)
			}
		})
	}
	tries := make([]try, 50)
	for i := range tries {
		tries[i] = broken
	}
	perform(t, steepFlow(t, "retries: {maxAttempts: -1, delay: 1s}", ""), map[string][]try{"work": append(tries, ok)},
		nil, func(s *stage, r *core.Run) {
			if got := len(s.attempts()); got != 51 || s.steepStatus(r) != "SUCCESS" {
				t.Errorf("unlimited: %d attempts, %s", got, s.steepStatus(r))
			}
		})
}

// steepNoAttempt checks that actions that depend on one with maxAttempts: 0 go on, wherever that one stands; the file
// that it would have written is read by name.
func steepNoAttempt(t *testing.T) {
	for _, chains := range []string{"", "retries: {processChains: {maxAttempts: 2}}\n"} {
		c := steepConversion(t, "api: 4.7.0\nname: w\n"+chains+`
vars: [{id: words, value: [x, y]}]
actions:
  - {type: execute, id: none, service: never, outputs: [{id: out, var: made}]}
  - {type: execute, id: reads, service: one, inputs: [{id: in, var: made}]}
  - {type: execute, id: waits, service: many, dependsOn: none}
  - {type: for, id: each, input: words, enumerator: e, actions: [
      {type: execute, id: off, service: never},
      {type: execute, id: after, service: one, inputs: [{id: in, var: e}], dependsOn: off}]}
  - {type: execute, id: end, service: many, dependsOn: each}
`, steepServices+`
- {id: never, path: ./never, runtime: other, retries: {maxAttempts: 0}, parameters: [
    {id: out, type: output, cardinality: 0..1}]}
`, "")
		perform(t, c, nil, nil, func(s *stage, r *core.Run) {
			times := map[string]int{}
			for _, task := range s.seen {
				name, _, _ := strings.Cut(task.StepName, "[")
				times[name]++
			}
			if got := counts(times); got != "after 2, end 1, reads 1, waits 1" || s.steepStatus(r) != "SUCCESS" {
				t.Errorf("executed %s, %s", got, s.steepStatus(r))
			}
		})
	}
}

func steepDelays(t *testing.T) {
	c := steepFlow(t, "retries: {maxAttempts: 7, delay: 1s, exponentialBackoff: 2, maxDelay: 10s}", "")
	perform(t, c, map[string][]try{"work": {broken}}, nil, func(s *stage, _ *core.Run) {
		var want []string
		at := 0
		for _, delay := range []int{0, 1, 2, 4, 8, 10, 10} {
			at += delay
			text := fmt.Sprintf("%ds", at)
			if at == 0 {
				text = "0ms"
			}
			want = append(want, fmt.Sprintf("work@%s-%s error", text, text))
		}
		s.wantAttempts(want...)
	})
}

func steepMaxDelay(t *testing.T) {
	for text, want := range map[string]string{
		"retries: {maxAttempts: 2, delay: 5s, maxDelay: 1s}":                          "work@5s-5s error",
		"retries: {maxAttempts: 2, delay: 5s, maxDelay: 1s, exponentialBackoff: 1}":   "work@5s-5s error",
		"retries: {maxAttempts: 2, delay: 5s, maxDelay: 1s, exponentialBackoff: 1.5}": "work@1s-1s error",
	} {
		perform(t, steepFlow(t, text, ""), map[string][]try{"work": {broken}}, nil, func(s *stage, _ *core.Run) {
			s.wantAttempts("work@0ms-0ms error", want)
		})
	}
}

func steepCancel(t *testing.T) {
	c := steepFlow(t, "retries: {maxAttempts: 2, delay: 10m}", "")
	perform(t, c, map[string][]try{"work": {broken}}, func(s *stage) {
		s.pass(3 * time.Second)
		s.operate(core.Operation{Op: core.OpCancel, Step: core.NoStep})
	}, func(s *stage, r *core.Run) {
		s.wantAttempts("work@0ms-0ms error")
		if d := r.EndedAt.Std().Sub(s.began); d != 3*time.Second || s.steepStatus(r) != "CANCELLED" {
			t.Errorf("ended after %s as %s, want 3s, CANCELLED", d, s.steepStatus(r))
		}
	})
}
