package conformance

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

func init() {
	rows["D3"] = forecastsAreKept
	rows["D4"] = listAndPageAgree
}

// lives are runs of which nobody does anything: the flow, what their attempts do, and how often they are looked at.
var lives = map[string]struct {
	text   string
	script map[string][]try
	each   time.Duration
}{
	"behind a breaker": {`
pawl: 1
name: row
services:
  maps: {limits: {breaker: {failures: 3, pause: 20m, maxPause: 40m}}, retry: "fixed(20, 1s)"}
steps: [{name: work, exec: x, service: maps, timeout: {scheduleToClose: 6h}}]
`, map[string][]try{"work": {broken}}, 7 * time.Minute},
	"behind a retry budget": {`
pawl: 1
name: row
services:
  ledger: {limits: {retries: 2/1h}, retry: "fixed(20, 500ms)"}
steps: [{name: work, exec: x, service: ledger, timeout: {scheduleToClose: 8h}}]
`, map[string][]try{"work": {broken}}, 11 * time.Minute},
	"until its attempts are used up": {`
pawl: 1
name: row
timeout: 45m
steps: [{name: work, exec: x, retry: "exponential(8, 1s)", timeout: {scheduleToClose: 30m}}]
`, map[string][]try{"work": {broken}}, 900 * time.Millisecond},
	"until no time is left": {`
pawl: 1
name: row
steps: [{name: work, exec: x, retry: "exponential(12, 1m)", timeout: {scheduleToClose: 10m}}]
`, map[string][]try{"work": {broken}}, 7 * time.Second},
	"a hook that hangs": {`
pawl: 1
name: row
steps: [{name: work, exec: x}]
hooks:
  onFailure: {exec: x, timeout: {startToClose: 1h}}
`, map[string][]try{"work": {broken}, "onFailure": {hangs}}, 7 * time.Second},
	"a sleep past its limit": {`
pawl: 1
name: row
timeout: 30m
steps: [{name: rest, sleep: 2h}]
`, nil, time.Minute},
	"a wait": {`
pawl: 1
name: row
steps: [{name: ask, wait: {event: go}, timeout: 3h}]
`, nil, 10 * time.Minute},
}

// watched looks at a run until it has ended.
func watched(n *native, each time.Duration, look func(r *api.Run)) *api.Run {
	n.t.Helper()
	for range 100_000 {
		n.pass(each)
		r := n.now()
		if look(r); r.Phase.Closed() {
			return r
		}
	}
	n.t.Fatal("the run does not end")
	return nil
}

// forecastsAreKept checks that what a run says of its first end comes to pass at that instant, and that its attempts
// start no sooner than it says.
func forecastsAreKept(t *testing.T) {
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			playNative(t, life.text, life.script, func(n *native) {
				said, sooner := map[api.Time]string{}, map[int]api.Time{}
				last := watched(n, life.each, func(r *api.Run) {
					if len(r.Ends) > 0 && r.Ends[0].At != 0 && !r.Ends[0].Soonest {
						said[r.Ends[0].At] = r.Ends[0].Text
					}
					for _, s := range r.Steps {
						if s.Ahead != nil && len(s.Ahead.Attempts) > 0 && s.Name == "work" {
							next := s.Ahead.Attempts[0]
							sooner[next.Attempt] = next.From
						}
					}
				})
				if len(said) == 0 {
					t.Error("it has said nothing of its end")
				}
				for at, what := range said {
					if at != last.EndedAt {
						t.Errorf("it has said that %s ends it at %s, and has ended at %s: %s", what, n.since(at),
							n.since(last.EndedAt), last.Says.Text)
					}
				}
				for _, a := range last.Steps[0].Attempts {
					if from := sooner[a.Attempt]; a.StartedAt != 0 && a.StartedAt < from {
						t.Errorf("attempt %d has started at %s, and was to start at %s", a.Attempt,
							n.since(a.StartedAt), n.since(from))
					}
				}
			})
		})
	}
}

// listAndPageAgree checks that a list tells of a run what its page tells, at each instant of its life.
func listAndPageAgree(t *testing.T) {
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			playNative(t, life.text, life.script, func(n *native) {
				watched(n, life.each, func(r *api.Run) {
					page, err := n.svc.Runs(n.t.Context(), api.Query{})
					if err != nil {
						n.t.Fatal(err)
					}
					for i := range page.Runs {
						if listed := &page.Runs[i]; listed.Run == r.Run {
							agrees(n.t, listed, r)
						}
					}
				})
			})
		})
	}
}

// agrees compares a run in a list with its page. A list has the first ends only.
func agrees(t *testing.T, listed *api.RunSummary, r *api.Run) {
	t.Helper()
	words := func(s *api.RunSummary) string {
		text, err := json.Marshal([]any{s.Phase, s.Status, s.Says, s.Then, s.Unfinished})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if in, on := words(listed), words(&r.RunSummary); in != on {
		t.Errorf("the list tells\n%s\nand the page\n%s", in, on)
	}
	first := r.Ends[:min(len(r.Ends), len(listed.Ends))]
	missing := len(listed.Ends) < min(len(r.Ends), 3)
	if !reflect.DeepEqual(first, listed.Ends) && len(first)+len(listed.Ends) > 0 || missing {
		t.Errorf("in the list it is ended by\n%+v\nand on its page by\n%+v", listed.Ends, r.Ends)
	}
}
