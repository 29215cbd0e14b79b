package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/policy"
)

func at(ms int) api.Time { return api.At(time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond)) }

func example() *api.Run {
	return &api.Run{
		RunSummary: api.RunSummary{
			Run: "01a1fb50-f6b1-7624", Workflow: "<script>alert(1)</script>", Phase: api.RunFailed, CreatedAt: at(0),
			EndedAt: at(3000), Labels: map[string]string{"b": "2", "a": "1"},
		},
		Why:   `step "a" failed & "quoted" <b>`,
		Input: json.RawMessage(`{"html":"</pre><img src=x>"}`),
		Deadlines: []api.Deadline{
			{Limit: "run", At: at(2900), After: api.Duration(2900 * time.Millisecond), Origin: "f.yaml:3:10"},
			{Limit: "execution", At: at(90000)},
		},
		Bounds: []api.Bound{{At: at(2900), Text: "run 2.9s, set at <f.yaml>:3:10"}, {At: at(90000), Text: "execution"}},
		Steps: []*api.Step{
			{
				Step: `a"><script>`, Type: "exec", Phase: api.StepFailed, ScheduledAt: at(0), EndedAt: at(3000),
				Failure:   &policy.Failure{Details: []byte(`{"stderr":"one\n</pre><script>two"}`)},
				Deadlines: []api.Deadline{{Limit: "deadline", At: at(2000), Origin: "f.yaml:9:9"}},
				Bounds:    []api.Bound{{At: at(2000), Text: "deadline"}},
				Bars: []api.Bar{
					{Kind: api.BarQueued, From: at(0), To: at(500), Attempt: 1, Bad: true, Text: "attempt 1 waits"},
					{Kind: api.BarRunning, From: at(500), To: at(1000), Attempt: 1, Bad: true, Text: "<b>failed"},
					{Kind: api.BarBackoff, From: at(1000), To: at(1500), Attempt: 1, Bad: true},
					{Kind: api.BarRunning, From: at(1500), To: at(2000), Attempt: 2},
					{Kind: api.BarQueued, From: at(2000), Attempt: 3},
					{Kind: api.BarAhead, From: at(9000), To: at(9000), Attempt: 4},
				},
				Attempts: []api.Attempt{
					{
						Attempt: 1, ReadyAt: at(0), StartedAt: at(500), EndedAt: at(1000), Outcome: "error",
						Why: "no paper; retried: 1 of 3", NextAt: at(1500),
					},
					{Attempt: 2, ReadyAt: at(1500), StartedAt: at(1500), EndedAt: at(2000), Outcome: "lost"},
					{Attempt: 3, ReadyAt: at(2000)},
				},
			},
			{
				Step: "nap", Kind: api.KindSleep, Phase: api.StepSuspended, ScheduledAt: at(0),
				Bars: []api.Bar{{Kind: api.BarWaits, From: at(0), Text: "sleeps"}},
			},
		},
		Operations: []api.Audit{{At: at(700), Operation: "retry_step", Step: "a", Actor: "<i>ada"}},
	}
}

func made(t *testing.T, r *api.Run) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, r, at(3000)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNothingOfTheRunIsMarkup checks that every text of a run is text on the page too, and that the page loads
// nothing.
func TestNothingOfTheRunIsMarkup(t *testing.T) {
	text := made(t, example())
	for _, bad := range []string{"<script", "<img", "<i>", "<b>\"", "http:", "https:", "<link", " href=\"", "@import"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{
		"&lt;script&gt;alert(1)", "no paper; retried: 1 of 3", "one\n&lt;/pre&gt;", "never started",
		"set at f.yaml:3:10", "&lt;i&gt;ada",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestChart checks that bars and limits stand where they belong, within the drawing.
func TestChart(t *testing.T) {
	r := example()
	c := draw(r, r.Steps, at(3000))
	if len(c.Rows) != 2 || len(c.Limits) != 1 || len(c.Rows[0].Limits) != 1 {
		t.Fatalf("%d rows, %d limits of the run, %d of the step", len(c.Rows), len(c.Limits), len(c.Rows[0].Limits))
	}
	var classes []string
	for _, row := range c.Rows {
		for _, b := range row.Bars {
			classes = append(classes, b.Class)
			if b.X < names || b.X+b.Width > names+plot || b.Width < minBar {
				t.Errorf("a bar from %v, %v wide: %s", b.X, b.Width, b.Title)
			}
		}
	}
	if got := strings.Join(classes, ", "); got != "queued, running bad, backoff, running good, queued, waits open" {
		t.Error(got)
	}
	if c.Limits[0].X <= c.Rows[0].Limits[0].X || c.Limits[0].X > names+plot {
		t.Errorf("limits at %v and %v", c.Limits[0].X, c.Rows[0].Limits[0].X)
	}
	text := made(t, r)
	d := xml.NewDecoder(strings.NewReader(text[strings.Index(text, "<svg") : strings.Index(text, "</svg>")+6]))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTicks(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		3 * time.Millisecond: time.Millisecond, 100 * time.Millisecond: 20 * time.Millisecond,
		3 * time.Second: 500 * time.Millisecond, time.Minute: 10 * time.Second, 10 * time.Minute: 2 * time.Minute,
		24 * time.Hour: 6 * time.Hour, 365 * 24 * time.Hour: 61 * 24 * time.Hour,
	} {
		if got := tickOf(span); got != want || span/got > ticks+1 {
			t.Errorf("%v has a mark every %v, want %v", span, got, want)
		}
	}
}

// TestManySteps checks that the failed steps of a run with very many steps stay on the page.
func TestManySteps(t *testing.T) {
	r := example()
	for range 1000 {
		r.Steps = append(r.Steps, &api.Step{Step: "item", Phase: api.StepSucceeded, ScheduledAt: at(1), EndedAt: at(2)})
	}
	if text := made(t, r); strings.Count(text, "<details") != maxRows ||
		!strings.Contains(text, "602 steps that succeeded are left out") || !strings.Contains(text, "never started") {
		t.Error("not the steps that were wanted")
	}
}
