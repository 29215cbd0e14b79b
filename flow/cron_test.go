package flow

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/policy"
)

// TestCatchUp checks that missed firings begin one after the other, that each run knows which firing it is for, and
// that firings older than the flow wants are left out.
func TestCatchUp(t *testing.T) {
	doc := mustParse(t, `
pawl: 1
name: report
cron: {schedule: "0 * * * *", catchUp: 3h30m}
retry: {maxAttempts: 2, initialInterval: 1m}
steps:
  - {name: a, exec: [report, "${{ run.scheduledAt }}"]}
`)
	def, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(hour, minute int) core.Time {
		return policy.At(day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute))
	}
	// The first run begins on time at 1:00 and fails at 9:10. Its retry begins a minute later, as the run for 1:00.
	begin := core.Start{Workflow: "report", Input: []byte("null")}
	now := at(0, 30)
	var got []string
	for i, ends := range []core.Time{at(9, 10), at(9, 20), at(9, 30), at(9, 40), at(9, 50), at(10, 5)} {
		r := core.NewRun(core.RunID{byte(i + 1)})
		advance := func(in core.Input) []core.Effect {
			out, err := core.Advance(r, def, in, now)
			if err != nil {
				t.Fatalf("run %d, %T: %v", i, in, err)
			}
			return out.Effects
		}
		advance(begin)
		if now = max(now, r.StartAt); r.Phase == core.RunPending {
			advance(core.Tick{})
		}
		payload, f := def.NewDecider(r).Task(r, &r.Steps[0], now)
		if f != nil {
			t.Fatal(f)
		}
		_, firing, _ := strings.Cut(string(payload), `"report","2026-03-01T`)
		got = append(got, firing[:5]+" began "+now.Std().Format("15:04"))
		advance(core.TaskStarted{Attempt: 1})
		end := core.TaskEnded{Attempt: 1}
		if i == 0 {
			end.Failure = &policy.Failure{Kind: policy.KindError}
		}
		now = ends
		for _, effect := range advance(end) {
			if closed, ok := effect.(core.Closed); ok {
				begin = *closed.Next
			}
		}
	}
	want := "01:00 began 01:00, 01:00 began 09:11, 06:00 began 09:20, 07:00 began 09:30, 08:00 began 09:40, " +
		"09:00 began 09:50"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got  %s\nwant %s", all, want)
	}
}
