package server

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/api"
)

// TestGoesOnWithAnotherText checks that a run that failed goes on over HTTP with another text of its flow and another
// input, and that a text is refused in which a step differs that is done.
func TestGoesOnWithAnotherText(t *testing.T) {
	const text = `pawl: 1
name: order
steps:
  - {name: first, noop: {output: 1}}
  - {name: second, needs: [first], fail: {message: broken}}
output: {sum: "${{ steps.first.output + input.n }}"}
`
	mended := strings.Replace(text, "fail: {message: broken}", "noop: {}", 1)
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(c *Config) { c.Flows = flows{"order": mended} })
		st, err := b.client.Start(t.Context(), api.StartRequest{
			Definition: definition(text), Input: json.RawMessage(`{"n":1}`), WorkflowID: "w",
		})
		if err == nil {
			_, err = b.client.Wait(t.Context(), st.Run)
		}
		if err != nil {
			t.Fatal(err)
		}
		quoted := func(body map[string]any) string {
			out, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		path := "/api/v1/runs/" + st.Run + "/restart"
		other := strings.Replace(mended, "output: 1}", "output: 2}", 1)
		unreadable := strings.Replace(mended, "name: order", "name: [", 1)
		for body, want := range map[string]string{
			quoted(map[string]any{"flow": mended}):                                      "say which steps run again",
			quoted(map[string]any{"failed": true, "flow": other}):                       `step \"first\"`,
			quoted(map[string]any{"failed": true, "flow": unreadable}):                  "not readable as YAML",
			quoted(map[string]any{"failed": true, "from": "first", "flow": mended}):     "not both",
			quoted(map[string]any{"failed": true, "flow": mended, "workflow": "order"}): "one of workflow",
		} {
			if status, _, answer := b.plain("POST", path, body); status < 400 || !strings.Contains(answer, want) {
				t.Errorf("%s is answered with %d %s, want %q", body, status, answer, want)
			}
		}
		status, _, answer := b.plain("POST", path, `{"failed":true,"workflow":"order","input":{"n":5},"actor":"ada"}`)
		var next api.Started
		if err := json.Unmarshal([]byte(answer), &next); err != nil || status != 201 {
			t.Fatal(status, answer, err)
		}
		out, err := b.client.Wait(t.Context(), next.Run)
		if err != nil || string(out.Output) != `{"sum":6}` {
			t.Errorf("it ends as %+v, %v", out, err)
		}
		r, err := b.client.Run(t.Context(), next.Run)
		if err != nil || r.WorkflowID != "w" || !r.Steps[0].Kept || r.Steps[1].Kept {
			t.Errorf("the run is %+v, %v", r, err)
		}
		if status, _, answer := b.plain("POST", "/api/v1/runs/"+next.Run+"/restart", `{"failed":true}`); status != 409 {
			t.Errorf("a run that succeeded goes on: %d %s", status, answer)
		}
	})
}
