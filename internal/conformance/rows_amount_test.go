package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/api"
)

func init() { rows["R5"] = limitsComeFromTheInput }

// limitsComeFromTheInput checks that wherever a flow has a limit an expression may give it. It is worked out once, when
// the step begins, and kept: all attempts have it. What shows the limit tells the place of the expression.
func limitsComeFromTheInput(t *testing.T) {
	const text = `
pawl: 1
name: row
input: {type: object, properties: {run: {default: 1h}, work: {default: 2s}, patience: {default: 30s}}}
timeout: "${{ input.run }}"
steps:
  - name: work
    exec: x
    retry: "fixed(2, 1s)"
    timeout: {startToClose: "${{ now.Second() == 0 ? input.work : '30m' }}"}
    continueOn: [timeout]
  - {name: ask, needs: work, wait: {event: yes}, timeout: {wait: {after: "${{ input.patience }}", warn: 50%}}}
`
	script := map[string][]try{"work": {hangs, hangs}}
	playNative(t, text, script, func(n *native) {
		r := n.end()
		want := []string{"startToClose", "row.yaml:10:29"}
		for _, a := range r.Steps[0].Attempts {
			took := n.since(a.EndedAt) - n.since(a.StartedAt)
			if a.Limit != want[0] || a.Failure.Origin != want[1] || took != 2*time.Second {
				t.Errorf("an attempt ends after %s: %+v", took, a.Failure)
			}
		}
		ask := r.Steps[1]
		if len(r.Steps[0].Attempts) != 2 || ask.Phase != api.StepTimedOut || n.since(ask.EndedAt) != 35*time.Second {
			t.Errorf("it ends at %s with %s", n.since(ask.EndedAt), phases(r))
		}
		if n.since(r.RunLimit) != time.Hour || r.Deadlines[0].Origin != "row.yaml:5:10" {
			t.Errorf("the run's deadlines are %+v", r.Deadlines)
		}
	})
	for value, why := range map[string]string{
		`null`: "wait is null", `"soon"`: "missing number", `5`: "write 5ms or 5s", `"0s"`: "zero leaves no time",
		`"-1s"`: "duration", `{}`: "an amount such as 5m",
	} {
		const text = "pawl: 1\nname: row\noutput: \"${{ steps.ask.phase }}\"\nsteps:\n" +
			"  - {name: ask, wait: {event: yes}, timeout: {wait: \"${{ VALUE }}\"}, continueOn: [failed]}\n"
		playNative(t, strings.Replace(text, "VALUE", expression(value), 1), nil, func(s *native) {
			r := s.end()
			f := r.Steps[0].Failure
			if f == nil || !strings.Contains(f.Message, why) || !strings.Contains(f.Message, "(row.yaml:5:") ||
				s.since(r.EndedAt) != 0 {
				t.Errorf("%s: %+v, want %q", value, f, why)
			}
		})
	}
	doc, err := flow.Parse("row.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := doc.Start([]byte(`{"run":"90"}`)); err == nil || !strings.Contains(err.Error(), "row.yaml:5:10") {
		t.Errorf("a run with a bad limit is refused with %v", err)
	}
	if s, err := doc.Start([]byte(`{"run":"none"}`)); err != nil || s.Run != nil {
		t.Errorf("a run without a limit has %+v, %v", s.Run, err)
	}
	elsewhere(t)
}

// expression returns a value of JSON as an expression.
func expression(value string) string {
	return strings.NewReplacer("null", "nil", `"`, "'").Replace(value)
}

// elsewhere checks that an expression is refused in words where no value but a plain one may stand.
func elsewhere(t *testing.T) {
	for _, field := range []string{
		`retry: "${{ input.r }}"`, `retry: {maxAttempts: "${{ 3 }}"}`, `retry: {initialInterval: "${{ '1s' }}"}`,
		`priority: "${{ 1 }}"`, `forEach: [1], concurrency: "${{ 1 }}"`,
	} {
		_, err := flow.Parse("row.yaml", []byte("pawl: 1\nname: row\nsteps: [{name: a, exec: x, "+field+"}]\n"))
		if err == nil || !strings.Contains(err.Error(), "an expression cannot stand here") {
			t.Errorf("%s is answered with %v", field, err)
		}
	}
	for _, cron := range []string{
		`"${{ input.c }}"`, `{schedule: "${{ input.c }}"}`, `{schedule: "@daily", zone: "${{ input.z }}"}`,
		`{schedule: ["${{ input.c }}", "@daily"]}`, `{schedule: "@daily", catchUp: "${{ '1h' }}"}`,
	} {
		_, err := flow.Parse("row.yaml", []byte("pawl: 1\nname: row\ncron: "+cron+"\nsteps: [{name: a, exec: x}]\n"))
		if err == nil || !strings.Contains(err.Error(), "an expression cannot stand here") {
			t.Errorf("cron: %s is answered with %v", cron, err)
		}
	}
}
