package api

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

var findNow = At(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))

// TestRead checks what texts that find runs mean.
func TestRead(t *testing.T) {
	ago := func(d time.Duration) Time { return At(findNow.Std().Add(-d)) }
	for text, want := range map[string]Query{
		"":                       {},
		"  order-42  late ":      {Words: []string{"order-42", "late"}},
		`"is:open"`:              {Words: []string{"is:open"}},
		`"a \"b\" c\\"`:          {Words: []string{`a "b" c\`}},
		"is:failed":              {Phases: []RunPhase{RunFailed}},
		"is:failed is:timed-out": {Phases: []RunPhase{RunFailed, RunTimedOut}},
		"is:open is:running":     {Phases: []RunPhase{RunPending, RunRunning, RunWaiting, RunPaused}},
		"is:retrying is:late is:stuck is:resting is:top": {
			Retrying: true, WillMiss: true, Stuck: true, Resting: true, Top: true,
		},
		`flow:"Order 2" id:a:b`:                   {Workflow: "Order 2", WorkflowID: "a:b"},
		"tenant=acme plan=a=b":                    {Labels: map[string]string{"tenant": "acme", "plan": "a=b"}},
		"url=https://x label:a:b=c":               {Labels: map[string]string{"url": "https://x", "a:b": "c"}},
		`name="two words"`:                        {Labels: map[string]string{"name": "two words"}},
		"input:customer.id=42":                    {Input: map[string]string{"customer.id": "42"}},
		`error:"503 Service" error:"503 Service"`: {Error: "503 Service"},
		"older:1h newer:2d":                       {CreatedBefore: ago(time.Hour), CreatedFrom: ago(48 * time.Hour)},
		"newer:2026-03-01":                        {CreatedFrom: At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))},
		"older:2026-03-01T10:00:00+02:00":         {CreatedBefore: At(time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC))},
		"deadline:10m parent:01ab":                {DeadlineWithin: Duration(10 * time.Minute), Parent: "01ab"},
	} {
		got, err := Query{Text: text}.Read(findNow)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestReadBeside checks that a text goes with what a query has beside it, and that nothing is chosen twice.
func TestReadBeside(t *testing.T) {
	beside := Query{Workflow: "order", Labels: map[string]string{"a": "1"}, Phases: []RunPhase{RunFailed}}
	q := beside
	q.Text = "flow:order b=2 is:running"
	got, err := q.Read(findNow)
	if err != nil || len(got.Labels) != 2 || len(got.Phases) != 2 || len(beside.Labels) != 1 {
		t.Errorf("%+v, %v; beside it %+v", got, err, beside)
	}
	for _, text := range []string{"flow:invoice", "a=2"} {
		q.Text = text
		if _, err := q.Read(findNow); CodeOf(err) != CodeInvalid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestReadRefuses checks that a text that makes no sense is refused with its place and what to write.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"is:open flw:order": "column 9: there is no key \"flw\"; did you mean flow:?",
		"zzzz:1":            "column 1: there is no key \"zzzz\", only is, flow",
		"is:opn":            "did you mean is:open?",
		"is:blue":           "there are cancelled, closed",
		"ä is:":             "column 3: is: is followed by nothing",
		`ok "never ends`:    "column 4: a quotation mark has no partner",
		`""`:                "hold nothing",
		"=acme":             "write a label as key=value",
		"tenant=":           "write a label as key=value",
		"input:x":           "write a value of the input as key=value",
		"older:soon":        "neither an age",
		"older:10":          "neither an age",
		"deadline:10":       "10",
		"flow:a flow:b":     "column 8: flow: is given twice",
		"newer:1h newer:2h": "newer: is given twice",
		"tenant=a tenant=b": "no run has two values of tenant",
	} {
		_, err := Query{Text: text}.Read(findNow)
		if CodeOf(err) != CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// TestHasWords checks where words are looked for.
func TestHasWords(t *testing.T) {
	run := RunSummary{
		Run: "01abcdef", Workflow: "Checkout", WorkflowID: "order-42", Message: "503 Service Unavailable",
		Labels: map[string]string{"tenant": "acme"},
	}
	for text, want := range map[string]bool{
		"ORDER": true, "check 503": true, "tenant=acme": true, `"tenant=ac"`: true, "01AB": true, "bcdef": false,
		"order-43": false, "order 504": false, "error:503": true, "error:order": false, `"service una"`: true,
	} {
		q, err := Query{Text: text}.Read(findNow)
		if err != nil || q.HasWords(&run) != want {
			t.Errorf("%s: %t, %v", text, q.HasWords(&run), err)
		}
	}
}

// FuzzRead checks that any text is read or refused with a place within it.
func FuzzRead(f *testing.F) {
	f.Add(`is:open flow:"a b" tenant=acme error:"x\"" older:1h`)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Query{Text: text}.Read(findNow)
		if err == nil && q.Text != "" {
			t.Errorf("%q is left of %q", q.Text, text)
		}
		if err != nil && (CodeOf(err) != CodeInvalid || !strings.HasPrefix(err.Error(), "query: column ")) {
			t.Error(err)
		}
	})
}
