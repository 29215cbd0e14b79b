package flow

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/policy"
)

// TestScheduledAt checks that a run knows the firing that it is for as an instant in the schedule's zone, also one that
// its retry policy begins: the nights of a month have a day each, although the clocks change.
func TestScheduledAt(t *testing.T) {
	doc := mustParse(t, `
pawl: 1
name: report
cron: {schedule: "30 1 * * *", zone: Europe/Berlin}
retry: {maxAttempts: 2, initialInterval: 1m}
steps:
  - {name: a, exec: [report, "${{ run.scheduledAt.Format('2006-01-02 15:04') }}"]}
`)
	def, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	firing := time.Date(2026, 3, 28, 0, 30, 0, 0, time.UTC)
	begin := core.Start{
		Workflow: "report", Input: []byte("null"), Firing: policy.At(firing), Zone: doc.Cron.Zone,
	}
	now := policy.At(firing.Add(26 * time.Hour))
	for attempt := range 2 {
		r := core.NewRun(core.RunID{byte(attempt + 1)})
		advance := func(in core.Input) []core.Effect {
			out, err := core.Advance(r, def, in, now)
			if err != nil {
				t.Fatalf("attempt %d, %T: %v", attempt, in, err)
			}
			return out.Effects
		}
		advance(begin)
		if now = max(now, r.StartAt); r.Phase == core.RunPending {
			advance(core.Tick{})
		}
		payload, f := def.NewDecider(r).Task(r, &r.Steps[0], now)
		if f != nil || !strings.Contains(string(payload), `"2026-03-28 01:30"`) {
			t.Errorf("attempt %d has %s, %v", attempt, payload, f)
		}
		advance(core.TaskStarted{Attempt: 1})
		for _, effect := range advance(core.TaskEnded{Attempt: 1, Failure: &policy.Failure{Kind: policy.KindError}}) {
			if closed, ok := effect.(core.Closed); ok && closed.Next != nil {
				begin = *closed.Next
			}
		}
	}
}

// TestCronSpec checks that a flow's cron says all that a schedule knows, and is written as it was read.
func TestCronSpec(t *testing.T) {
	doc := mustParse(t, `
pawl: 1
name: report
cron:
  schedule: ["0 2 * * mon-fri", "0 4 L * *"]
  except: [2026-12-24..2026-12-31, 05-01]
  zone: Europe/Berlin
  skipped: skip
  repeated: both
  overlap: newest
  catchUp: 3h30m
  jitter: 5m
  notAfter: "06:00"
  maxFailures: 3
steps: [{name: a, noop: {}}]
`)
	want := schedule.Spec{
		Cron: "0 2 * * mon-fri; 0 4 L * *", Except: "2026-12-24..2026-12-31; 05-01", Zone: "Europe/Berlin",
		Skipped: "skip", Repeated: "both", Overlap: "newest", CatchUp: "3h30m", Jitter: "5m", NotAfter: "06:00",
		MaxFailures: 3,
	}
	if got := doc.Cron.Spec(); got != want {
		t.Errorf("%+v", got)
	}
	text, err := Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", text)
	if err != nil || again.Cron.Spec() != want {
		t.Errorf("%v, %s", err, text)
	}
}
