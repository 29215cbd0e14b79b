package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// stockFlow fails where its input says so, and succeeds else.
const stockFlow = `pawl: 1
name: stock
timeout: 1h
steps:
  - {name: read, exec: "echo read"}
  - {name: count, needs: [read], retry: "fixed(3, 1m)",
     exec: {shell: "test $N = 1 || { echo none is left >&2; exit 1; }", env: {N: "${{ input.n }}"}}}
  - {name: tell, needs: [count], exec: "echo told"}
`

// TestPageReplays checks that a person sees a run as it was after each event, with what came then, where a limit was
// set, how many runs have the same error, what another policy had done, and what differs from another run.
func TestPageReplays(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "stock.yaml", stockFlow)
	address := served(t, dir, "--virtual-time", "--database", "memory:", ".")
	for i, n := range []int{1, 0, 0} {
		begin(t, address, fmt.Sprintf(`{"workflow":"stock","workflowId":"stock-%d","input":{"n":%d}}`, i, n))
		if i == 0 { // runs of one instant are in no order
			asked(t, http.MethodPost, address+"/api/v1/clock", `{"by":"1s"}`)
		}
	}
	asked(t, http.MethodPost, address+"/api/v1/clock", `{"by":"10m"}`)
	begin(t, address, `{"workflow":"stock","workflowId":"stock-3","input":{"n":1}}`)
	l.does("open the run", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/run/stock-1"))
	l.sees(saidAt, "none is left")
	l.waits(`document.querySelectorAll(".tl .bar.running.bad").length === 3`)
	l.tab("Error")
	l.sees(".step", "Same error in 2 runs of stock")

	l.press("◀ Replay")
	l.sees(".replay", "Back to now")
	for range 5 {
		l.does("go back", chromedp.KeyEvent("["))
	}
	l.sees("header.run", "Retrying")
	l.sees(saidAt, "count retries in ")
	l.counts(".tl .came.bad", 1)    // the attempt that came
	l.counts(".tl .bar.ahead", 1)   // the forecast of then
	l.counts(".tl .row.planned", 1) // the step that had not begun
	l.evaluates(`String(document.querySelectorAll("header.run .actions button").length)`, "0")
	l.pictures("replay")
	l.press("stock.yaml:3:10")
	l.sees("dialog .source .at", "timeout: 1h")
	l.accessible("source")
	l.shot("source")
	l.press("Close")
	l.press("Back to now")
	l.sees("header.run", "Failed")

	l.tab("Policy")
	l.waits(`document.querySelector(".otherwise") !== null`)
	l.runs(`document.querySelector(".otherwise").open = true`)
	l.fill(".otherwise textarea", `retry: "fixed(30, 1m)"`)
	l.press("Simulate")
	l.sees(".otherwise .verdict", "Succeeds after 10m")
	l.sees(".otherwise", "when stock-3 succeeded")
	l.accessible("whatif")
	l.shot("whatif")

	l.runs(`[...document.querySelectorAll("header.run a")].find((a) => a.textContent === "compare").click()`)
	l.sees("h1", "Compare")
	l.sees("main", "B ")
	l.does("compare it with one that succeeded", chromedp.Navigate(address+"/compare?run=stock-1&with=stock-0"))
	l.sees(".differences", "none is left")
	l.sees(".differences", "the run")
	l.counts(".tl .came", 2)
	l.pictures("compare")

	l.does("go somewhere", chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
	l.sees("dialog", "Go to")
	l.does("name a run", chromedp.SendKeys(chromedp.CSS("dialog input"), "stock-2"))
	l.waits(`document.querySelector('.goto [aria-selected="true"] bdi')?.textContent === "stock-2"`) // it was found
	l.accessible("goto")
	l.shot("goto")
	l.does("take it", chromedp.KeyEvent(kb.Enter))
	l.sees("h1", "stock-2")

	l.sees(".step h2", "count")
	l.menu(".step", "Run again from here…")
	l.fill("dialog textarea", `{"n": 2}`)
	l.runs(`document.querySelector("dialog form").requestSubmit()`)
	l.waits(`document.querySelector("h1")?.textContent.startsWith("stock") && !location.pathname.endsWith("/stock-2")`)
	l.sees("header.run", "Retrying")
	l.menu(".step", "Set policy…")
	l.fill("dialog textarea", `retry: "fixed(9, 1m)"`)
	l.sees(".preview", "retry.maxAttempts 3 → 9")
	l.sees(".preview", "If every attempt fails: attempt 2 at ")
	l.shot("policy")
	l.press("Back")
}

// TestPageHooks checks that a person tests a webhook, looks at what was sent, and turns it off and on again.
func TestPageHooks(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	var taken atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		taken.Add(1)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "no coffee")
	}))
	t.Cleanup(hook.Close)
	write(t, dir, "stock.yaml", stockFlow)
	address := served(t, dir, "--webhook-allow", "127.0.0.1", ".")
	add := command(t, dir, "webhook", "add", "alerts", hook.URL, "--server", address)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.does("look at webhooks", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/webhooks"))
	l.press("Send a test")
	l.sees(".toast", "Test of alerts: ")
	l.waits(`document.querySelectorAll(".card tbody tr").length === 1`)
	l.click(".card tbody button.link")
	l.sees("dialog", "no coffee")
	l.sees("dialog", "Payload")
	l.pictures("delivery")
	l.press("Close")
	l.press("Turn off")
	l.sees(".card h2", "off")
	l.press("Undo")
	l.waits(`!document.querySelector(".card h2").textContent.includes("off")`)
	l.press("New secret")
	l.sees(".made", "whsec_")
	if taken.Load() != 1 {
		t.Errorf("it was sent %d messages", taken.Load())
	}
	l.does("look at flows", chromedp.Navigate(address+"/flows"))
	l.sees("table.flows", "stock.yaml")
	l.pictures("flows")
	l.click("table.flows a.button")
	l.sees("h1", "Start a run")
}
