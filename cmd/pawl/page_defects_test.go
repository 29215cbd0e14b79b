//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// nestedFlow has a graph whose edges pass others, a policy, a wait, and an input that is nested.
const nestedFlow = `pawl: 1
name: nested
input: true
timeout: 1h
steps:
  - {name: fetch, exec: "echo fetched"}
  - {name: charge, needs: [fetch], exec: "exit 3", retry: "exponential(6, 10m)", timeout: {scheduleToClose: 50m}}
  - {name: left, needs: [fetch], wait: {event: go}, timeout: 30m}
  - {name: right, needs: [fetch], wait: {event: go}}
  - {name: join, needs: [left, right, fetch], noop: {}}
`

const (
	nestedInput = `{"a":{"b":{"c":{"d":{"e":{"f":"deep"}}}}}}`
	nestedRun   = `{"workflow":"nested","workflowId":"nested-1","input":` + nestedInput + `}`
)

// servedNested returns the address of a server with a run of nestedFlow, which rests.
func servedNested(t *testing.T, dir string) string {
	t.Helper()
	write(t, dir, "nested.yaml", nestedFlow)
	address := served(t, dir, ".")
	begin(t, address, nestedRun)
	retrying := []byte(`"status":"retrying"`)
	for from := time.Now(); time.Since(from) < patience; {
		if bytes.Contains(asked(t, http.MethodGet, address+"/api/v1/runs/nested-1", ""), retrying) {
			return address
		}
	}
	t.Fatal("the run does not come to rest")
	return ""
}

// TestPageComesBack checks that each page says when its server is gone, and no longer once it is there again.
func TestPageComesBack(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "nested.yaml", nestedFlow)
	serve := func(listen string) (*exec.Cmd, string) {
		cmd := command(t, dir, "dev", "--listen", listen, ".")
		return cmd, servedBy(t, cmd)
	}
	first, address := serve("127.0.0.1:0")
	l.does("open the list", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees(".empty", "There are no runs yet")
	if err := first.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	l.sees(".live", "not connected")
	l.runs(`[...document.querySelectorAll("nav a")].find((a) => a.textContent === "Deadlines").click()`)
	l.sees("h1", "Deadlines")
	l.sees(".problem", "the server does not answer")
	serve(strings.TrimPrefix(address, "http://"))
	l.sees(".live", "● live")
	l.sees(".empty", "No open run has a deadline")
	l.waits(`document.querySelector(".problem") === null`)
}

// TestPageFits checks sizes and places: nothing is too small to read or to press, nothing is cut off or moves out of
// sight, and words stay whole.
func TestPageFits(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	address := servedNested(t, t.TempDir())
	l.does("open the run", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/run/nested-1"))
	l.sees(".tree", "c 1 field") // the rest is folded
	l.sees(".tl", "Waiting")
	l.evaluates(`[...new Set([...document.querySelectorAll(".tree li")].map((e) =>
		getComputedStyle(e).fontSize))].join()`, "13px") // however deep a value is
	const small = `[...document.querySelectorAll("button, .bar nav a, summary, select")].filter((e) => {
		const b = e.getBoundingClientRect(); return b.width > 0 && !e.matches(".link, .chip") &&
			(b.height < 24 || b.width < 24); }).map((e) => e.outerHTML.slice(0, 80)).join()`
	l.evaluates(small, "")

	const names = `String([...document.querySelectorAll(".tl-name")].every((e) =>
		e.getBoundingClientRect().left === document.querySelector(".tl-plot").getBoundingClientRect().left))`
	const axis = `String(document.querySelector(".tl-scale").getBoundingClientRect().top -
		document.querySelector(".tl-plot").getBoundingClientRect().top)`
	l.runs(`for (let i = 0; i < 3; i++) document.querySelector("button[aria-label='Zoom in']").click()`)
	l.waits(`document.querySelector(".tl-plot").scrollLeft > 200`)
	l.evaluates(names, "true")
	l.evaluates(axis, "0")
	l.waits(`new URLSearchParams(location.search).get("span") !== null`)
	l.runs(`window.before = new URLSearchParams(location.search).get("span");
		document.querySelector(".tl-tools button[title^='Time as']").click()`)
	l.waits(`new URLSearchParams(location.search).has("true")`)
	l.waits(`new URLSearchParams(location.search).get("span") !== window.before`)
	l.does("open the address again", chromedp.Reload())
	l.waits(`document.querySelector(".tl-plot")?.scrollLeft > 200`)
	l.sees(".tl [aria-pressed=true]", "True time")

	l.tab("Graph")
	l.counts(".graph .edge", 6)
	l.evaluates(`(() => { const box = document.querySelector(".graph svg").getBoundingClientRect();
		return [...document.querySelectorAll(".graph path.edge, .graph rect")].filter((e) => {
			const b = e.getBoundingClientRect();
			return b.left < box.left || b.top < box.top || b.right > box.right + 1 || b.bottom > box.bottom + 1;
		}).length + " are cut off"; })()`, "0 are cut off")

	for _, width := range []int64{1440, 1920} {
		l.does("a wide screen", chromedp.EmulateViewport(width, 900), chromedp.Navigate(address+"/queues"))
		l.sees("table.queues", "exec")
		l.evaluates(`String(document.querySelector(".brand").getBoundingClientRect().left -
			document.querySelector("h1").getBoundingClientRect().left)`, "0")
		l.evaluates(`[...document.querySelectorAll("td, td *")].filter((e) => getComputedStyle(e).overflowWrap !==
			"normal" || e.matches(".urgent") && 
			getComputedStyle(e).textDecorationLine !== "none").length + " break"`, "0 break")
	}
	l.does("a window that becomes narrow", chromedp.EmulateViewport(390, 844))
	l.waits(`(() => { const b = document.querySelector(".bar nav [aria-current]").getBoundingClientRect();
		return b.left >= 0 && b.right <= innerWidth; })()`)
	l.does("a narrow screen", chromedp.EmulateViewport(390, 844), chromedp.Navigate(address+"/runs"))
	l.sees("table.runs", "nested-1")
	l.evaluates(`(() => { const row = document.querySelector("table.runs tbody tr").getBoundingClientRect(),
		about = document.querySelector("td.about").getBoundingClientRect();
		return [row.top < 513, row.right <= innerWidth, about.width > 200].join(); })()`, "true,true,true")
}

// TestPageTakesKeys checks that keys mean the same wherever one has clicked, and nothing below an open dialog; that the
// focus goes along to another page; and that the button that one expects leaves a run as it is.
func TestPageTakesKeys(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "bad.yaml", "pawl: 1\nname: bad\nsteps:\n  - {name: fetch, exec: 'exit 3'}\n")
	address := servedNested(t, dir)
	begin(t, address, `{"workflow":"bad","workflowId":"bad-1"}`)
	begin(t, address, `{"workflow":"bad","workflowId":"bad-2"}`)
	key := func(k string) { l.does("press "+k, chromedp.KeyEvent(k)) }
	l.does("open the list", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.counts("table.runs tbody tr", 3)
	l.click(".views a:nth-of-type(6)")
	l.waits(`document.querySelectorAll("table.runs tbody tr").length === 2`)
	key("j")
	key("\r")
	l.sees("h1", "bad-1")
	l.evaluates(`String(document.activeElement.contains(document.querySelector("h1")))`, "true")
	key("?")
	l.sees("dialog", "Keyboard shortcuts")
	key("d")
	l.evaluates(`location.pathname.slice(0, 5)`, "/run/")
	key(kb.Escape)
	l.waits(`document.querySelector("dialog") === null`)
	key("d")
	l.sees("h1", "Deadlines")

	l.does("open the run", chromedp.Navigate(address+"/run/nested-1?view=graph"))
	l.sees(".step h2", "charge")
	key("j")
	l.sees(".step h2", "left") // the same keys, over the graph
	l.counts(".node.selected", 1)
	l.menu("header.run", "Cancel…")
	l.sees("dialog", "Keep running")
	l.evaluates(`[...document.querySelectorAll("dialog .menu button")].map((b) => b.textContent).join()`,
		"Keep running,Cancel run")
	l.press("Keep running")
	l.click("button[role=tab]")
	l.evaluates(`document.querySelector("[role=treegrid]").getAttribute("aria-label") + " " +
		document.querySelectorAll("[role=treegrid] [role=row]").length`, "Steps over time 5")
	key("k")
	l.sees(".step h2", "charge")
	l.press("Run now")
	l.sees(".toast", "Run now: done")
	l.sees(".operations", "run now step charge by page")
}

// TestPageAsksOnce checks that a page asks for its list once, and that nothing is drawn anew while only time goes by.
func TestPageAsksOnce(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	address := servedNested(t, t.TempDir())
	l.does("open the list", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees("table.runs", "nested-1")
	l.waits(`performance.getEntriesByType("resource").some((e) => e.name.includes("/api/v1/counts"))`)
	l.evaluates(`performance.getEntriesByType("resource").filter((e) =>
		e.name.includes("/api/v1/runs?")).length + " lists"`, "1 lists")
	l.does("open the run", chromedp.Navigate(address+"/run/nested-1"))
	l.sees(".tl", "Waiting")
	l.runs(`window.drawn = ""; window.moved = 0; new MutationObserver((all) => { for (const m of all) {
		if (m.type === "attributes" && m.target.matches(".tl-sheet")) window.moved++;
		else if (window.moved > 3) window.drawn += " " + (m.target.className ?? m.target.parentElement.className); } })
		.observe(document.querySelector(".tl-plot"),
			{subtree: true, childList: true, attributes: true, characterData: true})`)
	l.waits(`window.moved >= 8`) // the clock of the page goes four times a second; at first it is laid out
	l.evaluates(`window.drawn`, "")
}

// TestPageIsQuiet checks that a browser has nothing to complain of before somebody signs in.
func TestPageIsQuiet(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	createToken(t, dir, "sqlite:p.db", "root", "--role", "admin")
	p := startServer(t, dir, "--database", "sqlite:p.db", ".")
	console := chromedp.Console(l.ctx)
	l.does("open the page", chromedp.Navigate(p.address+"/"))
	l.sees("h1", "Sign in")
	l.does("mark the end", noted(`console.log("the end")`))
	for m, err := range console {
		if err != nil {
			t.Fatal(err)
		}
		if m.Text == "the end" {
			break
		}
		t.Errorf("the page complains: %s", fmt.Sprint(m))
	}
}
