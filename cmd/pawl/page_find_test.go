package main

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestPageFinds checks the list of runs: one line of text with suggestions chooses them, views leave the rest of the
// line, columns can be left out, and selected runs are acted on alone.
func TestPageFinds(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "bad.yaml", "pawl: 1\nname: bad\nsteps:\n  - {name: fetch, exec: 'echo no rates >&2; exit 3'}\n")
	write(t, dir, "ask.yaml", "pawl: 1\nname: ask\nsteps:\n  - {name: ask, wait: {event: approved}, timeout: 20m}\n")
	address := served(t, dir, ".")
	for i := range 3 {
		begin(t, address, fmt.Sprintf(`{"workflow":"bad","workflowId":"bad-%d"}`, i))
		begin(t, address, fmt.Sprintf(`{"workflow":"ask","workflowId":"ask-%d","labels":{"tenant":"acme %d"}}`, i, i))
	}
	const q = `new URLSearchParams(location.search).get("q")`
	rows := "table.runs tbody tr:not(.space)"
	find := func(text string) {
		l.does("write "+text, chromedp.Focus(".find input"), chromedp.SendKeys(".find input", text))
	}
	l.does("open the list", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.counts(rows, 6)
	l.waits(`document.querySelectorAll(".histogram .bad, .histogram .run").length > 0`)
	l.pictures("runs")

	find("ten")
	l.sees(".ways li", `tenant="acme `)
	l.pictures("find")
	find("a")
	l.sees(".ways li", `tenant="acme `)
	l.does("take the first one", chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	l.waits(`document.querySelector(".find input").value.startsWith('tenant="acme ')`)
	l.does("look", chromedp.KeyEvent(kb.Enter))
	l.counts(rows, 1)
	l.click(`.views a:nth-of-type(2)`)
	l.evaluates(q+`.replace(/[0-9]/, "N")`, `is:open tenant="acme N"`)
	l.counts(rows, 1)

	l.does("write nonsense", chromedp.Navigate(address+"/runs?q=is:opn"))
	l.sees(".problem", "did you mean is:open?")
	l.does("find by an error", chromedp.Navigate(address+"/runs?q=error:rates"))
	l.counts(rows, 3)
	l.press("Keep as a view")
	l.sees(".views", "error:rates")

	l.does("look at what is open", chromedp.Navigate(address+"/runs?q=is:open"))
	l.sees(".views", "error:rates")
	l.counts(rows, 3)
	l.does("select two runs", chromedp.KeyEvent("x"), chromedp.KeyEvent("j"), chromedp.KeyEvent("X"))
	l.sees(".selection", "2 selected")
	l.pictures("selected")
	l.press("Act on them…")
	l.press("Preview")
	l.sees(".bulk .verdict", "2 would be changed")
	l.press("Apply to 2 runs")
	l.sees(".bulk .verdict", "2 done")
	l.press("Close")
	l.waits(`[...document.querySelectorAll("table.runs .chip")]
		.filter((c) => c.textContent.includes("Paused")).length === 2`)

	l.runs(`[...document.querySelectorAll("details.menu summary")]
		.find((s) => s.textContent.includes("Columns")).click()`)
	l.press("✓ Labels")
	l.waits(`!document.querySelector("table.runs thead").textContent.includes("Labels")`)
	l.does("open it again", chromedp.Navigate(address+"/runs"))
	l.counts(rows, 6)
	l.waits(`!document.querySelector("table.runs thead").textContent.includes("Labels")`)

	// Who draws over the bars chooses when runs began.
	const bars = `document.querySelector(".histogram svg").getBoundingClientRect()`
	l.waits(`document.querySelector(".histogram svg") !== null`)
	at, err := chromedp.Run(l.ctx, chromedp.Evaluate[[]float64](
		`(() => { const b = `+bars+`; return [b.left, b.top, b.width] })()`))
	if err != nil {
		t.Fatal(err)
	}
	x, y, width := at[0], at[1]+10, at[2]
	l.does("draw over the last bars", chromedp.MouseEvent("mousePressed", x+width*0.9, y, chromedp.ButtonLeft),
		chromedp.MouseEvent("mouseMoved", x+width-2, y, chromedp.ButtonLeft),
		chromedp.MouseEvent("mouseReleased", x+width-2, y, chromedp.ButtonLeft))
	l.waits(`(` + q + ` ?? "").includes("newer:")`)
	l.counts(rows, 6)
	l.press("at any time")
	l.waits(`!(` + q + ` ?? "").includes("newer:")`)
}
