package main

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPageEvents checks that the page loads the newest events of a run only, and older ones when one asks for them; and
// that a step shows the value of its last heartbeat.
func TestPageEvents(t *testing.T) {
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "long.yaml", `pawl: 1
name: long
steps:
  - {name: each, forEach: "${{ input }}", noop: {output: "${{ item }}"}}
  - name: load
    exec: {results: lines, shell: "echo '{\"pawl\": {\"heartbeat\": {\"rows\": 4711}}}'; sleep 600"}
`)
	address := served(t, dir, ".")
	items, _ := json.Marshal(make([]int, 300))
	begin(t, address, `{"workflow": "long", "workflowId": "one", "input": `+string(items)+`}`)
	l.does("open the run", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/run/one?step=load"))
	l.sees(".step", "Last heartbeat")
	l.sees(".step", "4711")
	l.tab("Events")
	l.counts(".history tbody tr", 500)
	l.evaluates(`String(document.querySelector(".history").textContent.includes("run.started"))`, "false")
	l.runs(`document.querySelector(".history > button").click()`)
	l.counts(".history tbody tr", 1000)
	l.runs(`document.querySelector(".history > button").click()`)
	l.waits(`document.querySelector(".history").textContent.includes("run.started")`)
	l.evaluates(`(() => {
		const cells = [...document.querySelectorAll(".history tbody td:first-child")];
		const seqs = cells.map((td) => Number(td.textContent));
		return String(seqs.every((n, i) => n === seqs.length - i) && !document.querySelector(".history > button"));
	})()`, "true")
}
