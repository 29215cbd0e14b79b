package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// rowsAtMost bounds the rows in the document, however many there are to scroll to.
const rowsAtMost = 150

// begin starts a run over HTTP.
func begin(t *testing.T, address, body string) {
	t.Helper()
	asked(t, http.MethodPost, address+"/api/v1/runs", body)
}

// asked returns what an address answers. It asks again while the server says that it has no time at present.
func asked(t *testing.T, method, url, body string) []byte {
	t.Helper()
	c := http.Client{Timeout: time.Minute}
	for end := time.Now().Add(patience); ; {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable && time.Now().Before(end) {
			continue
		}
		if err != nil || res.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s %s %v", method, url, res.Status, said, err)
		}
		return said
	}
}

// TestPageOfManyRuns checks that the list comes page by page as one scrolls, with rows for what can be seen alone. Who
// looks at the first runs sees new ones come; who has scrolled keeps their place.
func TestPageOfManyRuns(t *testing.T) {
	nightly.Only(t, "a browser reads many runs")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "small.yaml", "pawl: 1\nname: small\nsteps:\n  - {name: rest, noop: {}}\n")
	address := served(t, dir, ".")
	for i := range 420 {
		begin(t, address, fmt.Sprintf(`{"workflow":"small","workflowId":"run-%03d"}`, i))
	}
	const rows = `document.querySelectorAll("table.runs tbody tr").length`
	const loaded = `parseInt(document.querySelector(".loaded").textContent)`
	l.does("open the page", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees("table.runs", "run-419")
	begin(t, address, `{"workflow":"small","workflowId":"fresh-1"}`)
	l.sees("table.runs tbody tr", "fresh-1")
	l.sees(".loaded", "100 are loaded")
	l.sees(".phases", "421 ✓ Succeeded")
	for range 4 {
		l.runs(`scrollTo(0, document.documentElement.scrollHeight)`)
		l.waits(fmt.Sprintf(`(window.before ?? 100) < %s || %s === 421`, loaded, loaded))
		l.runs(`window.before = ` + loaded)
	}
	l.sees(".loaded", "421 runs.")
	l.runs(`scrollTo(0, document.documentElement.scrollHeight)`)
	l.sees("table.runs", "run-000")
	const first = `document.querySelector("table.runs").textContent.includes("run-419")`
	l.waits(fmt.Sprintf(`%s < %d && !%s`, rows, rowsAtMost, first))
	begin(t, address, `{"workflow":"small","workflowId":"fresh-2"}`)
	l.sees(".fresh", "1 new") // the rows that one looks at do not jump
	l.sees("table.runs", "run-000")
	l.runs(`window.down = scrollY; [...document.querySelectorAll("table.runs a")].find((a) =>
		a.textContent === "run-000").click()`)
	l.sees("h1", "run-000")
	l.runs(`history.back()`)
	l.sees("table.runs", "run-000") // one comes back to the same place
	l.waits(`scrollY === down`)
	l.sees(".fresh", "1 new")
	l.click(".fresh button")
	l.sees("table.runs tbody tr:not(.space)", "fresh-2")
}

// TestPageOfALongRun checks that only the visible steps of ten thousand have a row. The timeline is dragged and
// zoomed, and scrolls without long pauses.
func TestPageOfALongRun(t *testing.T) {
	nightly.Only(t, "a browser reads a long run")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "long.yaml", `pawl: 1
name: long
steps:
  - {name: each, forEach: "${{ input }}", noop: {}}
  - {name: rest, needs: [each], sleep: 1h}
`)
	address := served(t, dir, ".")
	items := "[" + strings.Repeat("0,", 9_999) + "0]"
	begin(t, address, `{"workflow":"long","workflowId":"long-1","input":`+items+`}`)
	l.does("open the run", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/run/long-1"))
	l.sees(".tl", "10000 succeeded")
	l.evaluates(`String(performance.getEntriesByType("resource")
		.filter((e) => e.name.includes("/runs/long-1") && e.encodedBodySize > 200 * 1024).length)`, "0")
	l.runs(`document.querySelector(".tl .fold").dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	l.sees(".tl", "each[5]")
	const rows = `document.querySelectorAll(".tl .row").length`
	l.runs(`window.frames_ = []; { const plot = document.querySelector(".tl-plot");
		let last = performance.now(), n = 0;
		const turn = (at) => { frames_.push(at - last); last = at; plot.scrollTop += 400;
			if (++n < 120) requestAnimationFrame(turn);
			else window.most = document.querySelectorAll(".tl .row").length; };
		requestAnimationFrame(turn); }`)
	l.waits(`window.most !== undefined`)
	l.waits(fmt.Sprintf(`%s > 5 && %s < %d`, rows, rows, rowsAtMost))
	l.waits(`frames_.sort((a, b) => a - b)[60] < 100`) // the median, in ms: 17 where nothing else runs

	l.runs(`for (let i = 0; i < 3; i++) document.querySelector("button[aria-label='Zoom in']").click()`)
	l.waits(`document.querySelector(".tl-plot").scrollLeft > 200`) // the middle stays in sight
	l.runs(`{ const p = document.querySelector(".tl-plot"), b = p.getBoundingClientRect(), from = p.scrollLeft;
		const at = (type, x) => p.dispatchEvent(new PointerEvent(type, {bubbles: true, button: 0, pointerType: "mouse",
			pointerId: 1, clientX: b.left + x, clientY: b.top + 60}));
		p.setPointerCapture = () => {}; at("pointerdown", 400); at("pointermove", 500); at("pointerup", 500);
		window.dragged = String(Math.round(from - p.scrollLeft)); }`)
	l.evaluates(`window.dragged`, "100")
	l.runs(`dispatchEvent(new KeyboardEvent("keydown", {key: "b"}))`)
	l.waits(`document.querySelector(".tl [aria-pressed=true]").textContent === "True time"`)
}

// TestPageStaysSmall checks that ten thousand changes of the runs that are shown leave nothing behind in the browser.
func TestPageStaysSmall(t *testing.T) {
	nightly.Only(t, "a browser reads for a while")
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "small.yaml", "pawl: 1\nname: small\nsteps:\n  - {name: rest, noop: {}}\n")
	address := served(t, dir, ".")
	l.does("open the page", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees("h1", "Runs")
	n := 0
	shown := func(more int) float64 { // the memory in use once so many runs more are shown
		for until := n + more; n < until; n++ {
			begin(t, address, fmt.Sprintf(`{"workflow":"small","workflowId":"run-%d"}`, n))
		}
		l.sees("table.runs", fmt.Sprintf("run-%d", n-1))
		if _, err := chromedp.Call(l.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
		used, err := chromedp.Call(l.ctx, runtime.GetHeapUsage, cdp.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		return used.UsedSize
	}
	before := shown(300)
	after := shown(2_000) // five changes each, or more
	t.Logf("%.1f MB, then %.1f MB", before/1e6, after/1e6)
	if after > before+2e6 {
		t.Errorf("the page has %.1f MB, and after 10,000 changes %.1f MB", before/1e6, after/1e6)
	}
}
