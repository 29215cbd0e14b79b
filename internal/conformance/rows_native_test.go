package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/service"
	"github.com/pawl-dev/pawl/policy"
)

func init() {
	rows["B1"] = stopsAreExplained
	rows["B2"] = forecastsComeTrue
	rows["B3"] = jitterIsNoChance
	rows["B4"] = retryAfterIsHonoured
	rows["B5"] = attemptsAreKept
	rows["B7"] = pausesChooseTheirClock
	rows["B8"] = openRunsAreChanged
	rows["B9"] = stoppingIsALadder
	rows["B10"] = warningsComeOnce
}

// native is a flow in Pawl's own language on a stage, beside the service that explains its runs.
type native struct {
	*stage
	svc api.Service
}

// playNative runs a flow, whose file is row.yaml, in virtual time.
func playNative(t *testing.T, text string, script map[string][]try, play func(n *native)) {
	t.Helper()
	doc, err := flow.Parse("row.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &dialect.Conversion{Flow: doc})
		s.script = script
		s.open(doc)
		play(newNative(s))
		s.close()
	})
}

// Rows ask the service that through returns in place of the engine's own; leave ends it.
var through = func(svc *service.Embedded) (_ api.Service, leave func()) { return svc, func() {} }

func newNative(s *stage) *native {
	read := func(d journal.Definition) (*service.Prepared, error) {
		def, err := s.kinds()[d.Kind].Compile(d)
		return &service.Prepared{Definition: def}, err
	}
	own := service.NewEmbedded(s.engine, read, func() core.Time { return policy.At(time.Now()) })
	svc, leave := through(own)
	s.leaves = append(s.leaves, leave)
	return &native{s, svc}
}

// now returns the run as it stands.
func (n *native) now() *api.Run {
	n.t.Helper()
	r, err := n.svc.Run(n.t.Context(), n.root.String())
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

// end waits until the run has ended.
func (n *native) end() *api.Run {
	n.t.Helper()
	if _, err := n.svc.Wait(n.t.Context(), n.root.String()); err != nil {
		n.t.Fatal(err)
	}
	return n.now()
}

// since returns an instant as the time since the run's start.
func (n *native) since(at api.Time) time.Duration { return at.Std().Sub(n.began) }

// playStep runs a flow of one step, which is "work", and returns that step at its end.
func playStep(t *testing.T, settings string, script []try, check func(n *native, r *api.Run, s *api.Step)) {
	t.Helper()
	text := "pawl: 1\nname: row\nsteps:\n  - name: work\n    exec: x\n    " +
		strings.ReplaceAll(settings, "; ", "\n    ")
	playNative(t, text, map[string][]try{"work": script}, func(n *native) {
		r := n.end()
		check(n, r, r.Steps[0])
	})
}

// stopsAreExplained checks that whatever ends a step or its run, the record says the reason, the limit that bound it
// and the place where that was set, and keeps the last real failure.
func stopsAreExplained(t *testing.T) {
	odd := try{kind: policy.KindError, typ: "Odd", msg: "odd"}
	for settings, c := range map[string]struct {
		script []try
		phase  api.StepPhase
		reason string
		limit  policy.LimitKind
		place  string // the place of the limit
		real   string // the last real failure, where a limit ended the step
	}{
		"timeout: {startToClose: 2s}; retry: fixed(2, 1s)": {
			[]try{hangs}, "timed_out", "attempts_exhausted", policy.LimitStartToClose, "row.yaml:6:29", "",
		},
		"retry: fixed(2, 1s); timeout: {inactivity: 2s}": {
			[]try{broken, hangs}, "timed_out", "attempts_exhausted", policy.LimitInactivity, "row.yaml:7:27", "",
		},
		"timeout: 5s; retry: fixed(3, 1s)": {
			[]try{broken, hangs},
			"timed_out", "timeout_not_retryable", policy.LimitScheduleToClose, "row.yaml:6:14",
			"exit code 1",
		},
		"timeout: {deadline: 5s}; retry: fixed(3, 1s)": {
			[]try{broken, hangs},
			"timed_out", "timeout_not_retryable", policy.LimitDeadline, "row.yaml:6:25",
			"exit code 1",
		},
		"timeout: 5s; retry: fixed(3, 10s)": {
			[]try{broken}, "timed_out", "no_time_left", policy.LimitScheduleToClose, "row.yaml:6:14", "exit code 1",
		},
		"timeout: {startToClose: {after: 1s, retry: false}}; retry: fixed(3, 10s)": {
			[]try{hangs}, "timed_out", "timeout_not_retryable", policy.LimitStartToClose, "row.yaml:6:29", "",
		},
		"retry: fixed(2, 1s)": {[]try{broken}, "failed", "attempts_exhausted", policy.LimitNone, "", "exit code 1"},
		"priority: 1":         {[]try{broken}, "failed", "retries_off", policy.LimitNone, "", "exit code 1"},
		"retry: fixed(3, 2s)": {[]try{failed}, "failed", "not_matched", policy.LimitNone, "", "known trouble"},
		"retry: {maxAttempts: 3, nonRetryable: [Odd]}": {
			[]try{odd}, "failed", "non_retryable", policy.LimitNone, "", "odd",
		},
		`retry: {maxAttempts: 3, when: "code == 7"}`: {
			[]try{broken}, "failed", "not_matched", policy.LimitNone, "", "exit code 1",
		},
	} {
		playStep(t, settings, c.script, func(_ *native, r *api.Run, s *api.Step) {
			if s.Phase != c.phase || s.Reason != c.reason || s.Failure == nil || s.Failure.Limit != c.limit {
				t.Errorf("%s: %s, %s, %+v", settings, s.Phase, s.Reason, s.Failure)
				return
			}
			if s.Failure.Origin != c.place || !strings.Contains(s.Why, c.place) || !strings.Contains(r.Why, c.place) {
				t.Errorf("%s: the limit was set at %q: %q", settings, s.Failure.Origin, s.Why)
			}
			real := s.Failure
			if c.limit != policy.LimitNone {
				if real = s.Failure.Cause; (real != nil) != (c.real != "") {
					t.Errorf("%s: caused by %+v", settings, real)
				}
			}
			if c.real != "" && (real == nil || real.Message != c.real || !strings.Contains(s.Why, c.real)) {
				t.Errorf("%s: the last real failure is %+v: %q", settings, real, s.Why)
			}
			if r.Failure == nil || r.Failure.Limit != c.limit || !strings.Contains(r.Why, s.Why) {
				t.Errorf("%s: the run says %q, %+v", settings, r.Why, r.Failure)
			}
		})
	}
	playNative(t, "pawl: 1\nname: row\ntimeout: 3s\nsteps: [{name: work, exec: x, timeout: 1h}]\n",
		map[string][]try{"work": {hangs}}, func(n *native) {
			n.pass(time.Second)
			if b := n.now().Steps[0].Binding; b == nil || b.Origin != "row.yaml:3:10" || b.Limit != "run" {
				t.Errorf("the limit that binds the step is %+v", b)
			}
			r := n.end()
			if r.Phase != api.RunTimedOut || n.since(r.EndedAt) != 3*time.Second ||
				r.Failure.Origin != "row.yaml:3:10" ||
				!strings.Contains(r.Why, "row.yaml:3:10") || !strings.Contains(r.Steps[0].Why, "row.yaml:3:10") {
				t.Errorf("the run: %s, %q; the step: %q", r.Phase, r.Why, r.Steps[0].Why)
			}
		})
}

// joined returns a list with a line for each.
func joined(lines []string) string { return strings.Join(lines, "\n  ") }

// told returns the instants that the attempts of a step show.
func (n *native) told(s *api.Step) []string {
	var out []string
	for _, a := range s.Attempts {
		out = append(out, fmt.Sprintf("%d ready %s started %s ended %s %s %s next %s", a.Attempt, n.since(a.ReadyAt),
			n.since(a.StartedAt), n.since(a.EndedAt), a.Outcome, a.Limit, n.since(a.NextAt)))
	}
	return append(out, fmt.Sprintf("%s %s at %s", s.Phase, s.Reason, n.since(s.EndedAt)))
}

// attemptsAreKept checks that each attempt keeps its instants, its worker, its outcome and its failure, also after the
// engine was opened again.
func attemptsAreKept(t *testing.T) {
	script := []try{
		{run: time.Second, kind: policy.KindError, typ: "Busy", code: 7, msg: "come later"},
		hangs,
		{run: 2 * time.Second, output: `"done"`},
	}
	const text = "pawl: 1\nname: row\n" +
		"steps: [{name: work, exec: x, retry: \"fixed(5, 3s)\", timeout: {startToClose: 4s}}]\n"
	playNative(t, text, map[string][]try{"work": script}, func(n *native) {
		want := []string{
			"1 ready 0s started 0s ended 1s error  next 4s",
			"2 ready 4s started 4s ended 8s timeout startToClose next 11s",
			"3 ready 11s started 11s ended 13s succeeded  next never", "succeeded  at 13s",
		}
		check := func(when string, n *native) {
			s := n.now().Steps[0]
			got := n.told(s)
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], n.since(0).String(), "never")
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:\n  %s", when, strings.Join(got, "\n  "))
			}
			f := s.Attempts[0].Failure
			if f == nil || f.Kind != policy.KindError || f.Type != "Busy" || f.Code != 7 || f.Message != "come later" ||
				!strings.Contains(s.Attempts[0].Why, "come later") {
				t.Errorf("%s: the first failure is %+v, %q", when, f, s.Attempts[0].Why)
			}
			for _, a := range s.Attempts {
				if a.Worker == "" {
					t.Errorf("%s: attempt %d has no worker", when, a.Attempt)
				}
			}
		}
		n.end()
		check("at its end", n)
		n.close()
		n.open(nil)
		check("opened again", newNative(n.stage))
	})
}

// pausesChooseTheirClock checks that during a pause a run's own deadlines go on, or stand still. Steps that were open
// have fresh deadlines afterwards, never earlier ones.
func pausesChooseTheirClock(t *testing.T) {
	const text = "pawl: 1\nname: row\ntimeout: 1h\nsteps:\n" +
		"  - {name: work, exec: x, timeout: 10m, retry: \"fixed(9, 4m)\"}\n" +
		"  - {name: paid, wait: {event: paid}, timeout: 30m}\n"
	for _, stop := range []bool{false, true} {
		playNative(t, text, map[string][]try{"work": {broken}}, func(n *native) {
			n.pass(3 * time.Minute)
			before := n.now()
			n.operate(core.Operation{Op: core.OpPause, Step: core.NoStep, StopClock: stop})
			n.pass(20 * time.Minute) // the deadline of the first step passes
			if paused := n.now(); len(paused.Steps[0].Attempts) != 1 || paused.Steps[0].Phase.Closed() {
				t.Errorf("clock stopped %t: during the pause %v", stop, n.told(paused.Steps[0]))
			}
			n.operate(core.Operation{Op: core.OpResume, Step: core.NoStep})
			after := n.now()
			run := time.Hour
			if stop {
				run += 20 * time.Minute
			}
			if got := n.since(after.RunLimit); got != run {
				t.Errorf("clock stopped %t: the run's deadline is after %s, want %s", stop, got, run)
			}
			for i, fresh := range []time.Duration{10 * time.Minute, 30 * time.Minute} {
				was, is := before.Steps[i], after.Steps[i]
				earlier := max(was.ScheduleToClose, was.NextAt)
				got := n.since(max(is.ScheduleToClose, is.NextAt))
				if got < n.since(earlier) || got != 23*time.Minute+fresh {
					t.Errorf("clock stopped %t: the deadline of %s was %s and is %s", stop, is.Step,
						n.since(earlier), got)
				}
			}
		})
	}
}

// warningsComeOnce checks that a limit with a warning tells it once for each deadline that it has, as an event.
func warningsComeOnce(t *testing.T) {
	const text = "pawl: 1\nname: row\ntimeout: {run: {after: 100s, warn: 50%}}\nsteps:\n" +
		"  - {name: work, exec: x, timeout: {scheduleToClose: {after: 40s, warn: 75%}}}\n" +
		"  - {name: paid, wait: {event: paid}}\n"
	playNative(t, text, map[string][]try{"work": {hangs}}, func(n *native) {
		n.pass(35 * time.Second)
		extend := core.Operation{Op: core.OpExtend, Limit: policy.LimitScheduleToClose, By: 20 * time.Second}
		n.operate(extend) // another deadline: it warns again
		n.pass(time.Second)
		n.close() // who opens the database again does not warn again
		n.open(nil)
		n = newNative(n.stage)
		r := n.end()
		var got []string
		err := n.svc.Watch(n.t.Context(), r.Run, 0, func(e api.Event) error {
			if strings.HasSuffix(e.Type, ".deadline_warning") {
				got = append(got, fmt.Sprintf("%s %s %s of %s", n.since(e.Time), e.Step, e.Limit, n.since(e.Deadline)))
			}
			return nil
		})
		want := []string{
			"30s work scheduleToClose of 40s", "50s work scheduleToClose of 1m0s", "50s  run of 1m40s",
		}
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v; warned\n  %s\nwant\n  %s", err, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	})
}
