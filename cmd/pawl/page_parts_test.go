package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// The most bytes that the page loads of a run of ten thousand steps: at first, and when something happens to it.
const (
	mostOfARun    = 200 << 10
	mostOfAChange = 20 << 10
)

// TestSizesOfALongRun checks how much the page loads of a run of ten thousand steps, and anew with each event of it.
func TestSizesOfALongRun(t *testing.T) {
	nightly.Only(t, "a run of ten thousand steps")
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "long.yaml", `pawl: 1
name: long
steps:
  - {name: each, forEach: "${{ input }}", noop: {}}
  - {name: rest, needs: [each], wait: {event: go}}
  - {name: then, needs: [rest], wait: {event: on}}
`)
	address := served(t, dir, ".")
	begin(t, address, `{"workflow":"long","workflowId":"long-1","input":[`+strings.Repeat("0,", 9_999)+`0]}`)
	at := address + "/api/v1/runs/long-1"
	type stand struct {
		Events  int
		Partial bool
		Says    struct{ Text string }
	}
	read := func(query string) (s stand, bytes int) {
		text := asked(t, http.MethodGet, at+query, "")
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		return s, len(text)
	}
	now, size := read("?folded=true")
	for !strings.Contains(now.Says.Text, "event go") {
		now, size = read(fmt.Sprintf("?folded=true&wait=30s&after=%d", now.Events))
	}
	if size > mostOfARun {
		t.Errorf("the run has %d bytes, at most %d are wanted", size, mostOfARun)
	}
	for _, change := range []struct{ path, body string }{
		{"/pause", `{"actor":"ada"}`}, {"/resume", `{}`}, {"/events", `{"name":"go"}`},
	} {
		asked(t, http.MethodPost, at+change.path, change.body)
		next, size := read(fmt.Sprintf("?folded=true&changed=true&wait=30s&after=%d", now.Events))
		if !next.Partial || next.Events <= now.Events || size > mostOfAChange {
			t.Errorf("%s: %d bytes with the events up to %d, a part: %t; at most %d are wanted",
				change.path, size, next.Events, next.Partial, mostOfAChange)
		}
		t.Logf("%s: %d bytes", change.path, size)
		now = next
	}
}

// TestPageLogs checks that the log of a step shows what one attempt printed, or all of them, and is saved whole.
func TestPageLogs(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "say.yaml", `pawl: 1
name: say
steps:
  - {name: say, exec: 'echo "this is attempt $PAWL_ATTEMPT"; echo tail; exit 1', retry: "fixed(3, 50ms)"}
`)
	address := served(t, dir, ".")
	begin(t, address, `{"workflow":"say","workflowId":"say-1"}`)
	l.does("open the log", chromedp.EmulateViewport(1440, 900),
		chromedp.Navigate(address+"/run/say-1?step=say&tab=log"))
	l.sees("header.run", "Failed")
	l.sees(".log", "this is attempt 3")
	const choose = `{ const s = document.querySelector(".step .tab select"); s.value = %q;
		s.dispatchEvent(new Event("change", {bubbles: true})); }`
	l.runs(fmt.Sprintf(choose, "1"))
	l.sees(".log", "this is attempt 1")
	l.evaluates(`new URLSearchParams(location.search).get("attempt")`, "1")
	l.runs(`URL.createObjectURL = (b) => { window.kept = b.text(); return "#"; };
		HTMLAnchorElement.prototype.click = function () { window.named = this.download; };`)
	l.press("Download")
	l.waits(`window.named !== undefined`)
	l.runs(`window.kept.then((text) => { window.whole = text; })`)
	l.waits(`window.whole !== undefined`)
	l.evaluates(`window.named + ": " + window.whole`, "say.1.log: this is attempt 1\ntail\n")

	l.runs(fmt.Sprintf(choose, "all"))
	l.counts(".step .tab pre.log", 3)
	l.waits(`[...document.querySelectorAll(".step .tab section")].map((s) => s.textContent).every((text, i) =>
		text.includes("Attempt " + (i + 1)) && text.includes("this is attempt " + (i + 1)))`)
	l.pictures("logs")
}

// TestPageQueues checks that the page of queues shows what limits have used, who is held back, and when an open breaker
// lets a probe go.
func TestPageQueues(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	address := servedKinds(t)
	for _, name := range []string{"breaker", "first", "queued"} {
		begin(t, address, fmt.Sprintf(`{"workflow":%q,"workflowId":%q}`, name, name))
	}
	asked(t, http.MethodPost, address+"/api/v1/clock", `{"by":"1m"}`)
	card := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".limits .card")].find((c) =>
			c.textContent.startsWith(%q))`, name)
	}
	l.does("look at queues", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/queues"))
	l.sees(".limits", "heavy")
	for name, texts := range map[string][]string{
		"heavy": {"queue of runs", "concurrency", "1 of 1", "Its limits are used up; 1 run waits."},
		"maps":  {"service", "breaker open", "Its breaker is open; the next probe goes in 9m20s"},
	} {
		for _, text := range texts {
			l.waits(fmt.Sprintf(`%s?.textContent.replaceAll("\u00a0", " ").includes(%q)`, card(name), text))
		}
	}
	l.evaluates(card("heavy")+`.querySelector("[role=meter]").getAttribute("aria-valuenow")`, "1")
	l.pictures("limits")
	l.does("look at who waits", chromedp.Navigate(address+"/run/queued"))
	l.sees(saidAt, "used up by first; it is the next one.")
	l.runs(`[...document.querySelectorAll(".why .says a")].find((a) => a.textContent === "first").click()`)
	l.sees("h1", "first")
}
