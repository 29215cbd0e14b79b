package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// inlineFlow prints on both streams, starts another run, and has a list that is long enough to be left out.
const inlineFlow = `pawl: 1
name: inline
steps:
  - {name: talk, exec: {shell: 'echo out; sleep 0.1; echo oops >&2; sleep 0.1; printf "line %s\n" 1 2 3'}}
  - {name: below, needs: [talk], flow: inner}
  - {name: each, needs: [below], forEach: "${{ input.items }}", noop: {}}
`

// TestPageInline checks that lines of a log have their stream and an address, that the steps of a child run unfold
// below the step that has started it, and that the items of a long list come when one looks at them.
func TestPageInline(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "inline.yaml", inlineFlow)
	write(t, dir, "inner.yaml", "pawl: 1\nname: inner\nsteps:\n  - {name: deep, exec: 'echo deep'}\n")
	address := served(t, dir, ".")
	items := "[" + strings.Repeat("0,", 249) + "0]"
	begin(t, address, `{"workflow":"inline","workflowId":"i","input":{"items":`+items+`}}`)
	l.does("open the run", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/run/i?step=talk"))
	l.sees("header.run", "Succeeded")
	l.tab("Log")
	l.sees(".log .logline.stderr", "oops")
	l.evaluates(`String(document.querySelectorAll(".log .logline").length)`, "5")
	l.click(".log .logline:nth-child(4) a")
	l.evaluates(`new URLSearchParams(location.search).get("line")`, "4")
	l.does("open it again", chromedp.Reload())
	l.sees(".log .logline.at", "line 2")
	l.pictures("log")
	l.runs(`{ const s = document.querySelector(".step .tools select"); s.value = "stderr";
		s.dispatchEvent(new Event("change", {bubbles: true})); }`)
	l.waits(`document.querySelectorAll(".log .logline").length === 1`)

	row := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".tl .row")].find((r) => r.textContent.includes(%q))`, name)
	}
	l.waits(row("below") + `?.querySelector(".fold") !== null`)
	l.runs(row("below") + `.querySelector(".fold").click()`)
	l.sees(".tl", "deep")
	l.sees(".tl", "250 succeeded")
	l.evaluates(`String(document.querySelectorAll(".tl .row").length)`, "4") // the items are not there
	l.runs(row("each") + `.click()`)
	l.tab("Items")
	l.counts(".cells .cell", 250)
	l.runs(row("each") + `.querySelector(".fold").click()`)
	l.sees(".tl", "each[7]")
	l.pictures("inline")
	l.runs(row("deep") + `.click()`)
	l.sees("h1", "inner")
	l.sees(".step h2", "deep")

	l.does("open one item", chromedp.Navigate(address+"/run/i?step=each%5B211%5D"))
	l.sees(".step h2", "each[211]")
}
