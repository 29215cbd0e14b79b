package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// hostile is a text that would do harm where it were taken for markup, or turn what stands beside it around.
const hostile = "<img src=x onerror=hurt=1><script>hurt=1</script>\u202emoor\u2066\x07\x1b[31m&lt;\"'"

// harmless checks that the texts on the page were taken for texts, and none is shown that cannot be seen.
func (l looker) harmless(page string) {
	l.Helper()
	l.evaluates(`"`+page+`: " + (window.hurt ?? "") + document.querySelectorAll("img, body script").length +
		(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069][^]{0,30}/
			.exec(document.body.textContent) ?? "") +
		[...document.querySelectorAll("[title], [aria-label]")].filter((e) =>
			/[\u0000-\u0008\u000b-\u001f\u202a-\u202e\u2066-\u2069]/.test(e.title + e.ariaLabel))
			.map((e) => e.outerHTML).join()`,
		page+": 0")
}

// TestPageTexts checks that texts of runs are shown unchanged everywhere, and do nothing.
func TestPageTexts(t *testing.T) {
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "bad.yaml", `pawl: 1
name: bad
timeout: 30m
steps:
  - {name: say, noop: {output: "${{ input }}"}}
  - name: fail
    needs: [say]
    exec: "cat '`+dir+`/hostile.txt'; cat '`+dir+`/hostile.txt' >&2; exit 1"
    retry: "exponential(5, 5m)"
  - {name: wait, needs: [say], wait: {event: go}}
`)
	text, err := json.Marshal(map[string]any{hostile: hostile, "long": strings.Repeat(hostile, 8_000)})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "hostile.txt", hostile+"\n")
	address := served(t, dir, ".")
	// the server takes no control characters here
	printed := strings.NewReplacer("\x07", "", "\x1b", "").Replace(hostile)
	body, err := json.Marshal(map[string]any{
		"workflow": "bad", "workflowId": printed, "labels": map[string]string{"k": printed}, "actor": hostile,
		"input": json.RawMessage(text),
	})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, address, string(body))
	l.does("open the page", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees("table.runs", "Retrying")
	l.harmless("runs")
	l.press("Bulk actions…")
	l.fill("dialog input", hostile)
	l.press("Preview")
	l.sees(".bulk .verdict", "1 would be changed")
	l.press("Apply to 1 run")
	l.sees(".bulk .verdict", "1 done")
	l.harmless("bulk")
	l.press("Close")
	l.click("table.runs tbody a")
	l.sees(".operations", "pause")
	l.harmless("run")
	l.runs(`document.querySelectorAll(".tl .row")[1].dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	l.sees(".step h2", "fail")
	l.tab("Log")
	l.sees(".log", "<img src=x")
	l.harmless("step")
	l.tab("Graph")
	l.counts(".graph .node", 3)
	l.harmless("graph")
	l.tab("Events")
	l.sees(".history", "run.paused")
	l.harmless("history")
	l.tab("Timeline")
	l.press("Resume")
	l.sees("dialog", "<img")
	l.harmless("dialog")
	l.does("deadlines", chromedp.Navigate(address+"/deadlines"))
	l.sees(".radar", "left")
	l.harmless("deadlines")
}
