package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// colourFlow prints colours, has a list of items, and a step that goes on failing. Its input has a schema.
const colourFlow = `pawl: 1
name: colours
timeout: 30m
input:
  type: object
  required: [customer]
  properties:
    customer: {type: string, minLength: 2, description: who pays}
    count: {type: integer, minimum: 1, default: 3}
    size: {type: string, enum: [small, large]}
    note: {type: string}
steps:
  - {name: paint, exec: "printf '\\033[31mred paint\\033[0m and \\033[1mbold\\033[0m <i>text</i>\\n'"}
  - {name: each, needs: [paint], forEach: [1, 2, 3, 4, 5, 6], exec: "echo item"}
  - {name: charge, needs: [each], exec: "echo none; exit 3", retry: "exponential(6, 2m)"}
`

const mediaFlow = `pawl: 1
name: media
steps:
  - name: cut
    exec:
      results: lines
      shell: |-
        for i in 1 2 3; do echo '{"pawl": {"heartbeat": '$i'}}'; sleep 1.1; done
  - {name: render, task: {queue: media, type: Render}}
`

// runs evaluates something on the page.
func (l looker) runs(script string) {
	l.Helper()
	l.does(script, noted(script))
}

// evaluates checks what something on the page is.
func (l looker) evaluates(script, want string) {
	l.Helper()
	have, err := chromedp.Run(l.ctx, chromedp.Evaluate[string](script))
	if err != nil || have != want {
		l.Errorf("%s is %q, %v; want %q", script, have, err, want)
	}
}

// accessible checks the page that is shown with axe-core, where it is installed.
func (l looker) accessible(name string) {
	l.Helper()
	axe, err := os.ReadFile("../../web/app/node_modules/axe-core/axe.min.js")
	if err != nil {
		if os.Getenv("PAWL_REQUIRE_BROWSER") != "" {
			l.Fatalf("%v: run npm ci in web/app", err)
		}
		return
	}
	l.runs(string(axe))
	l.runs(`window.found = undefined; axe.run().then((r) => { window.found = "found: " + r.violations
		.map((v) => v.id + " at " + v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join(", "))
		.join("; "); })`)
	_, err = chromedp.Run(l.ctx, chromedp.Poll[bool](`window.found !== undefined`,
		chromedp.WithPollingTimeout(30*time.Second)))
	found, err2 := chromedp.Run(l.ctx, chromedp.Evaluate[string](`window.found`))
	if err != nil || err2 != nil || found != "found: " {
		l.Errorf("%s: axe-core %s %v %v", name, found, err, err2)
	}
}

// pictures keeps pictures of the page, light and dark, wide and narrow, checks both colours with axe-core, and that
// nothing is wider than a small screen.
func (l looker) pictures(name string) {
	l.Helper()
	for _, theme := range []string{"dark", "light"} {
		l.runs(fmt.Sprintf(`document.documentElement.dataset.theme = %q`, theme))
		l.accessible(name + ", " + theme)
		l.shot(name + "-" + theme)
		l.does("a narrow screen", chromedp.EmulateViewport(390, 844))
		l.shot(name + "-" + theme + "-narrow")
		l.does("a wide screen", chromedp.EmulateViewport(1440, 900))
	}
	for _, width := range []int64{320, 720} { // as who magnifies a page sees it
		l.does("a small screen", chromedp.EmulateViewport(width, 900))
		is := fmt.Sprintf("%s at %d has too much: ", name, width)
		l.evaluates(fmt.Sprintf(`%q + Math.max(document.documentElement.scrollWidth - innerWidth, 0) + (
			document.documentElement.scrollWidth <= innerWidth ? "" : [...document.querySelectorAll("body *")]
			.filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll, .tl, nav"))
			.slice(0, 5).map((e) => " " + e.tagName + "." + e.className).join())`, is), is+"0")
	}
	l.does("a wide screen", chromedp.EmulateViewport(1440, 900))
}

// fill replaces what is in a field.
func (l looker) fill(selector, text string) {
	l.Helper()
	l.waits(fmt.Sprintf(`document.querySelector(%q) !== null`, selector))
	l.runs(fmt.Sprintf(`{ const f = document.querySelector(%q);
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(f), "value").set.call(f, %q);
		f.dispatchEvent(new Event("input", {bubbles: true})); }`, selector, text))
}

// TestPageOfARun checks that the items of a list are folded, logs have their colours, and the run is shown in three
// ways.
func TestPageOfARun(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "colours.yaml", colourFlow)
	address := served(t, dir, ".")
	write(t, dir, "input.json", `{"customer":"<img src=x onerror=alert(1)> \u202eacme\u0007","count":3,"size":"small",`+
		`"note":"`+strings.Repeat("<b>", 300_000)+`"}`)
	start := command(t, dir, "run", "--detach", "colours.yaml", "--id", "tree-1", "--input", "@input.json")
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.does("open the page", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees("table.runs", "tree-1")
	l.click("table.runs tbody a")
	l.sees(".why", "charge retries in ")
	l.sees(".tl", "6 succeeded")
	l.runs(`document.querySelector(".tl .fold").dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	l.counts(".tl .row", 9)
	l.sees(".tree", "Show all 900000 characters")
	l.sees(".tree", "<img src=x onerror=alert(1)> \ufffdacme\u2407")

	l.sees(".step h2", "charge")
	l.runs(`dispatchEvent(new KeyboardEvent("keydown", {key: "k"}))`)
	l.runs(`document.querySelector(".tl .row").click()`)
	l.sees(".step h2", "paint")
	l.tab("Log")
	l.sees(".log .c1", "red paint")
	l.sees(".log .bold", "bold")
	l.sees(".log", "<i>text</i>")
	l.pictures("run")
	l.tab("Graph")
	l.counts(".graph .node.ok", 2)
	l.counts(".graph .edge", 2)
	l.pictures("graph")
	l.runs(`document.querySelector(".graph .node.warn").dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	l.sees(".step h2", "charge")
	l.tab("Policy")
	l.waits(`document.querySelector(".otherwise") !== null`)
	l.runs(`document.querySelector(".otherwise").open = true`)
	l.fill(".otherwise textarea", "retry: none")
	l.press("Simulate")
	l.sees(".otherwise .verdict", "(1 attempt)")
	l.tab("Events")
	l.sees(".history", "run.started")
	l.sees(".history", "attempt.ended")
	l.pictures("history")
}

// TestPagePlaces checks that the page shows the effect of a policy before it is used, starts a run from a form, and
// has pages for deadlines, schedules and webhooks that say what to do where there are none.
func TestPagePlaces(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "colours.yaml", colourFlow)
	write(t, dir, "media.yaml", mediaFlow)
	address := served(t, dir, ".")
	l.does("open the lab", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/lab"))
	l.sees(".verdict", "Gives up after")
	l.fill(".lab textarea", "retry: exponential(5,")
	l.sees(".problem", "missing )")
	l.fill(".lab textarea", `retry: "exponential(5, 1s)"`)
	l.sees(".verdict", "Gives up after 15s (5 attempts): attempts exhausted.")
	l.press("Down for 10 minutes")
	l.sees(".during", "Gives up after 15s")
	l.fill(".lab textarea", `retry: "exponential(20, 1s, max=1m)"`)
	l.sees(".during", "Succeeds after 10m")
	l.pictures("lab")

	l.does("start", chromedp.Navigate(address+"/start"))
	l.sees("form", "who pays")
	l.fill(`.start input[type="text"]`, "a")
	l.press("Start")
	l.sees(".problem", "minLength")
	l.press("As JSON")
	l.fill(".start textarea", `{"customer":"acme"}`)
	l.press("Start")
	l.sees(".why", "charge retries in ")
	l.does("start another", chromedp.Navigate(address+"/start?flow=colours"))
	l.sees("form", "who pays")
	l.fill(`.start input[type="text"]`, "globex")
	l.pictures("start")
	l.press("Start")
	l.sees(".tree", "globex")

	l.does("write a flow", chromedp.Navigate(address+"/start?flow=new"))
	l.fill(".editor textarea", "pawl: 1\nname: x\nsteps:\n  - {name: a, run: nothing}\n")
	l.sees(".findings", `a step has no key "run"`)
	l.sees(".lines .wrong", "4")
	l.pictures("flow")
	l.press("4:15")
	l.evaluates(`document.activeElement.value.slice(document.activeElement.selectionStart).split(":")[0]`, "run")
	l.fill(".editor textarea", "pawl: 1\nname: x\nsteps:\n  - {name: a, exec: echo}\n")
	l.sees(".verdict.good", "x can be started: 1 step.")

	l.does("look at deadlines", chromedp.Navigate(address+"/deadlines"))
	l.sees(".radar", "left")
	l.sees("table", "colours")
	l.pictures("deadlines")
	begin(t, address, `{"workflow":"media","workflowId":"film-1"}`)
	l.does("look at heartbeats", chromedp.Navigate(address+"/run/film-1"))
	l.waits(`document.querySelectorAll(".tl .beat").length >= 2`)
	l.does("look at queues", chromedp.Navigate(address+"/queues"))
	l.sees("table.queues", "media")
	l.sees("table.queues .urgent", "no worker")
	l.sees("table.pressure", "no service")
	l.sees("main", "built-in workers")
	l.pictures("queues")
	l.does("look at schedules", chromedp.Navigate(address+"/schedules"))
	l.sees(".empty", "EnsureSchedule")
	l.pictures("schedules")
	l.does("look at webhooks", chromedp.Navigate(address+"/webhooks"))
	l.sees(".empty", "pawl webhook add")
	add := command(t, dir, "webhook", "add", "alerts", "https://hooks.example/in", "--server", address)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.sees(".card", "hooks.example")
	l.pictures("webhooks")
	l.does("look at all runs", chromedp.Navigate(address+"/runs"))
	l.sees("table.runs", "colours")
	l.pictures("runs")
	l.press("Bulk actions…")
	l.press("Preview")
	l.sees(".bulk .verdict", "3 would be changed")
	l.pictures("bulk")
	l.press("Apply to 3 runs")
	l.sees(".bulk .verdict", "3 done")
	l.press("Close")
	l.sees("table.runs", "Paused")
}

// TestPageOverview checks that the first screen says what needs a person as the command does, leads to it, and leaves
// out what one hides.
func TestPageOverview(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "bad.yaml", "pawl: 1\nname: bad\nsteps:\n  - {name: fetch, exec: 'echo no rates >&2; exit 3'}\n")
	write(t, dir, "ask.yaml", "pawl: 1\nname: ask\nsteps:\n  - {name: ask, wait: {event: approved}, timeout: 20m}\n")
	address := served(t, dir, ".")
	for i := range 3 {
		begin(t, address, fmt.Sprintf(`{"workflow":"bad","workflowId":"bad-%d"}`, i))
	}
	begin(t, address, `{"workflow":"ask","workflowId":"ask-1"}`)
	l.does("open the page", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/"))
	l.sees(".needed", "3 runs of bad failed alike")
	l.sees(".needed", "no rates")
	l.sees(".needed", `ask-1 waits for the event "approved"`)
	l.sees(".overview-title", "2 things need somebody")
	l.sees(".flows", "bad")
	l.waits(`document.querySelector(".figures .bad").textContent === "3"`)
	said, err := command(t, dir, "attention", "--server", address).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "3 runs of bad failed alike") ||
		!strings.Contains(string(said), `ask-1 waits for the event "approved"`) {
		t.Errorf("pawl attention says %s, %v", said, err)
	}
	l.pictures("overview")
	l.click(".needed li:nth-child(2) .actions button")
	l.sees(".overview-title", "1 thing needs somebody")
	l.does("open the page again", chromedp.Navigate(address+"/"))
	l.sees(".needed h2", "show 1 that is hidden")
	l.click(".needed li b a")
	l.counts("table.runs tbody tr", 3)
	l.evaluates(`new URLSearchParams(location.search).get("q")`, "is:failed is:timed-out flow:bad")
}

// TestPageKeys checks that one comes from the list to a run that is tried again by few keys, without a mouse.
func TestPageKeys(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "bad.yaml", "pawl: 1\nname: bad\nsteps:\n  - {name: fetch, exec: 'exit 3'}\n")
	address := served(t, dir, ".")
	begin(t, address, `{"workflow":"bad","workflowId":"bad-1"}`)
	begin(t, address, `{"workflow":"bad","workflowId":"bad-2"}`)
	l.does("open the list", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs?q=is:failed"))
	l.sees("table.runs", "bad-1")
	l.sees("table.runs", "bad-2")
	l.does("open the first page", chromedp.Navigate(address))
	keys := 0
	for _, key := range []string{"g", "j", "\r", "r", "\r", "\r"} { // nobody waits for what a key shows
		keys++
		l.does("press "+key, chromedp.KeyEvent(key))
	}
	l.sees("h1", "bad-1")
	l.sees(".operations", "retry run by page")
	l.sees(".step", "Attempts 2")
	if keys > 8 {
		t.Errorf("it took %d keys", keys)
	}
}

// TestPageClock checks that the page moves the clock of pawl dev --virtual-time, and that due work then happens.
func TestPageClock(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "colours.yaml", colourFlow)
	address := served(t, dir, "--virtual-time", "--database", "memory:", ".")
	start := command(t, dir, "run", "--detach", "colours.yaml", "--input", "customer=acme", "--server", address)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.does("open the page", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees(".clock", "Virtual time")
	l.click("table.runs tbody a")
	l.sees(".why", "charge retries in 2m")
	l.press("+1 m")
	l.sees(".why", "charge retries in 1m")
	l.press("Next timer")
	l.sees(".why", "charge retries in 4m")
	l.pictures("clock")
	l.press("Until the end")
	l.sees("header.run", "Timed out")
	if title, err := chromedp.Run(l.ctx, chromedp.Evaluate[string](`document.title`)); err != nil ||
		!strings.HasSuffix(title, "· Pawl") {
		t.Errorf("the title is %q, %v", title, err)
	}
}
