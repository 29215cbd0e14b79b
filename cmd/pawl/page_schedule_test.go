package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// monthFlow takes as many minutes as the day of its firing says, and fails on each 13th and 22nd.
const monthFlow = `pawl: 1
name: nightly
cron: {schedule: "30 1 * * *", zone: Europe/Berlin, catchUp: 6h}
steps:
  - {name: snapshot, sleep: "${{ string(run.scheduledAt.Day()) + 'm' }}"}
  - name: check
    needs: snapshot
    when: "${{ run.scheduledAt.Day() in [13, 22] }}"
    fail: {message: the disk is full}
`

// TestPageSchedules checks that a person sees on a schedule's calendar what fired, what is to come, what was missed and
// why, and how long its runs have taken.
func TestPageSchedules(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "nightly.yaml", monthFlow)
	address := served(t, dir, "--virtual-time", ".")
	do := func(args ...string) string {
		t.Helper()
		out, err := command(t, dir, append(args, "--server", address)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for !strings.Contains(do("schedule", "list"), "nightly") {
	}
	do("time", "move", "--by", "20d")
	do("schedule", "pause", "nightly", "--reason", "a move")
	do("time", "move", "--by", "3d")
	do("schedule", "resume", "nightly")
	do("time", "move", "--by", "8d")
	do("schedule", "skip", "nightly")
	do("time", "move", "--by", "2d")
	l.does("open the page", chromedp.EmulateViewport(1200, 1000), chromedp.Navigate(address+"/schedules"))
	l.sees(".card h2", "nightly")
	l.counts(".week .firing.succeeded", 2)
	l.counts(".week .firing.coming", 3)
	l.sees(".week .firing.missed", "1 missed (skipped)")
	l.pictures("week")
	l.does("as before", chromedp.EmulateViewport(1200, 1000))

	// Who draws over the days of a schedule makes up for what has no run there.
	at, err := chromedp.Run(l.ctx, chromedp.Evaluate[[]float64](`(() => {
		const b = [1, 3].map((i) => document.querySelector(".week tbody tr").children[i].getBoundingClientRect());
		return [b[0].left + 2, b[1].right - 2, b[0].top + 2]; })()`))
	if err != nil {
		t.Fatal(err)
	}
	l.does("draw over three days", chromedp.MouseEvent("mousePressed", at[0], at[2], chromedp.ButtonLeft),
		chromedp.MouseEvent("mouseMoved", at[1], at[2], chromedp.ButtonLeft))
	l.counts(".week .tl-range", 1)
	l.does("let go", chromedp.MouseEvent("mouseReleased", at[1], at[2], chromedp.ButtonLeft))
	l.sees("dialog", "Backfill nightly")
	l.waits(`document.querySelector("dialog .problem") !== null || document.querySelector(".preview b") !== null`)
	l.evaluates(`document.querySelector("dialog .problem")?.textContent ?? ""`, "")
	l.sees("dialog .preview", "3 firings in this span.")
	l.shot("backfill")
	l.press("Start runs")
	l.sees(".toast", "Firings of nightly to make up for: 3")
	l.press("Backfill…")
	l.sees("dialog .preview", "1 firing in this span.")
	l.fill("dialog input", "yesterday")
	l.sees("dialog .problem", "yesterday")
	l.press("Back")
	do("time", "move", "--by", "1h") // the run of the firing that was taken out has ended then
	l.counts(".calendar .firing.succeeded", 25)
	l.counts(".calendar .firing.failed", 1)
	l.counts(".calendar td .firing.missed", 4)
	l.counts(".calendar .firing.coming", 10)
	l.counts(".durations .firing", 25)
	l.sees(".calendar td .firing.missed", "3 missed: the schedule was paused")
	l.shot("schedule")
	l.click(".durations .firing")
	l.sees("h1", "nightly@")
}

// TestPageRetriesWithChanges checks that a failed run can go on from what failed with another input and a mended text,
// and that the page shows what differs where that is refused.
func TestPageRetriesWithChanges(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	const text = `{"pawl": 1, "name": "mended", "input": {"type": "object"},` +
		`"steps": [{"name": "build", "exec": "echo built"}, {"name": "ship", "needs": "build", ` +
		`"exec": {"shell": "test $TO = store", "env": {"TO": "${{ input.to }}"}}}]}`
	write(t, dir, "mended.yaml", text)
	address := served(t, dir, ".")
	begin(t, address, `{"workflow":"mended","workflowId":"m","input":{"to":"nowhere"}}`)
	l.does("open the page", chromedp.EmulateViewport(1200, 1000), chromedp.Navigate(address+"/run/m"))
	l.sees("h1", "m")
	l.menu("header.run", "Retry with changes…")
	l.waits(`document.querySelector("dialog textarea").value.includes("nowhere")`)
	l.fill("dialog label:nth-of-type(1) textarea", `{"to": "shop"}`)
	l.fill("dialog label:nth-of-type(2) textarea", strings.ReplaceAll(text, "echo built", "echo else"))
	l.runs(`document.querySelector("dialog form").requestSubmit()`)
	l.sees("dialog", "exec was {shell: echo built}, and is {shell: echo else}")
	l.fill("dialog label:nth-of-type(2) textarea", strings.ReplaceAll(text, "= store", "= shop"))
	l.runs(`document.querySelector("dialog form").requestSubmit()`)
	l.sees("header.run", "Succeeded")
	l.sees(".tl", "Succeeded")
	l.sees(".tree", "shop")
}
