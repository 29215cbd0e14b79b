package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestNextStepStaysInSight checks that the next step to begin stays on the screen, however low it is.
func TestNextStepStaysInSight(t *testing.T) {
	r := &api.Run{RunSummary: api.RunSummary{Run: "01a1fb50-f6b1-7624", Workflow: "long", Phase: api.RunRunning}}
	for i := range 40 {
		name := fmt.Sprintf("step%02d", i)
		r.Plan = append(r.Plan, api.PlannedStep{Name: name})
		if i < 20 {
			r.Steps = append(r.Steps, &api.Step{Step: name, ID: i, Name: name, Type: "noop", Phase: api.StepSucceeded})
		}
	}
	r.Steps[19].Phase = api.StepRunning
	for _, height := range []int{6, 8, 20, 30} {
		lines := Frame(View{Runs: []*api.Run{r}}, 1, 80, height)
		text := ""
		for _, l := range lines {
			text += l.String() + "\n"
		}
		if !strings.Contains(text, "● step19") || !strings.Contains(text, "· step20") {
			t.Errorf("on %d lines the open step or the next one is not to be seen:\n%s", height, text)
		}
		if len(lines) > height {
			t.Errorf("%d lines on a screen of %d", len(lines), height)
		}
	}
}

func TestETA(t *testing.T) {
	begin := api.At(time.Unix(1000, 0))
	now := begin + api.Time(30*time.Second/time.Microsecond)
	group := &api.Step{Kind: api.KindGroup, Phase: api.StepSuspended, ScheduledAt: begin, Items: 13}
	var items []*api.Step
	for range 3 {
		items = append(items, &api.Step{Phase: api.StepSucceeded})
	}
	if got := eta(group, items[:2], now); got != 0 {
		t.Errorf("after two of the items it takes %v", got)
	}
	if got := eta(group, items, now); got != 100*time.Second {
		t.Errorf("it takes %v", got)
	}
	// Results that were kept from an earlier run say nothing about how fast this one is.
	items = append(items, &api.Step{Phase: api.StepSucceeded, Kept: true}, &api.Step{Phase: api.StepRunning})
	if got := eta(group, items, now); got != 90*time.Second {
		t.Errorf("with a kept item it takes %v", got)
	}
	group.Phase = api.StepSucceeded
	if got := eta(group, items, now); got != 0 {
		t.Errorf("of one that has ended it takes %v", got)
	}
}

func TestFolded(t *testing.T) {
	big := `"` + strings.Repeat("ä", 400) + `"`
	if got := Folded([]byte(big), false); !strings.HasSuffix(got, "ää… (802 bytes, --full shows them)") {
		t.Error(got)
	}
	if got := Folded([]byte(big), true); got != big {
		t.Error(got)
	}
	if got := Folded([]byte(`{"a":1}`), false); got != `{"a":1}` {
		t.Error(got)
	}
}

// TestPrintedLine checks that a running step shows its last line, an item in its own line. Nothing in that line
// controls the terminal, and a long line is cut.
func TestPrintedLine(t *testing.T) {
	index := 1
	r := &api.Run{RunSummary: api.RunSummary{Run: "01a1fb50-f6b1-7624", Workflow: "w", Phase: api.RunRunning}}
	r.Steps = []*api.Step{
		{Step: "build", ID: 0, Name: "build", Type: "exec", Phase: api.StepRunning, Attempt: 1},
		{Step: "over", ID: 1, Name: "over", Type: "exec", Phase: api.StepSucceeded},
		{Step: "pages", ID: 2, Name: "pages", Kind: api.KindGroup, Phase: api.StepSuspended},
		{
			Step: "pages[1]", ID: 3, Name: "pages", Type: "exec", Phase: api.StepRunning, Attempt: 1, Group: "pages",
			Item: &index, Says: &api.Saying{Text: "runs"},
		},
	}
	v := View{Runs: []*api.Run{r}, Printed: map[StepOf]string{
		{r.Run, "build"}:    "\x1b[31mred\x1b[0m\a and " + strings.Repeat("long ", 40),
		{r.Run, "over"}:     "of one that has ended",
		{r.Run, "pages[1]"}: "page b",
	}}
	text := ""
	for _, l := range Frame(v, 1, 60, 30) {
		if l.Width() > 60 {
			t.Errorf("%d cells wide: %q", l.Width(), l.String())
		}
		text += l.String() + "\n"
	}
	for _, want := range []string{"    | red· and long long", "[1]     runs  | page b\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"\x1b", "\a", "of one that has ended"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q in:\n%s", unwanted, text)
		}
	}
}
