//go:build unix

package main

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// signs signs a person in with a token.
func (l looker) signs(token string) {
	l.Helper()
	l.sees("h1", "Sign in")
	l.fill(`.signin input`, token)
	l.press("Sign in")
}

// TestPageOfAServer checks that pawl server asks for a token, which is in no address. Who may only read sees what one
// could do, and cannot do it. Admins make tokens and see who did what; a namespace has runs of its own.
func TestPageOfAServer(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	const database = "sqlite:p.db"
	small := "pawl: 1\nname: small\nsteps:\n  - {name: rest, sleep: 1h}\n"
	for name, text := range map[string]string{"flows/colours.yaml": colourFlow, "flows/team/small.yaml": small} {
		if err := writeFolder(dir, name, text); err != nil {
			t.Fatal(err)
		}
	}
	root := createToken(t, dir, database, "root", "--role", "admin", "--namespace", "*")
	reader := createToken(t, dir, database, "<b>reader</b>", "--role", "read")
	forTasks := createToken(t, dir, database, "a worker", "--role", "worker")
	p := startServer(t, dir, "--database", database, "--namespaces", "team", "flows")
	begin := func(body string, header ...string) {
		if status, said := p.ask(root, "POST", "/api/v1/runs", body, header...); status != 201 {
			t.Fatal(status, said)
		}
	}
	begin(`{"workflow":"colours","workflowId":"mine","input":{"customer":"ada"}}`)

	l.does("open a run", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(p.address+"/run/mine"))
	l.signs("pawl_0_0")
	l.sees(".problem", "this token is not known to the server")
	l.evaluates(`String(document.querySelectorAll(".bar .live").length)`, "0") // nothing is followed yet
	l.pictures("signin")
	l.signs(forTasks)
	l.sees(".problem", `the token "a worker" has the role worker`)
	l.signs(reader)
	l.sees(".why", "charge retries in ") // the page that was asked for
	l.sees("header.run .needs", "The token “<b>reader</b>” has the role read: this needs the operate role.")
	l.evaluates(`String(document.querySelectorAll("header.run .actions button:not(:disabled)").length)`, "0")
	l.evaluates(`location.href`, p.address+"/run/mine")
	l.evaluates(`String(document.querySelector("nav").textContent.includes("Tokens"))`, "false")
	l.pictures("reader")
	l.does("start", chromedp.Navigate(p.address+"/start?flow=new"))
	l.sees(".empty", "This takes an admin")
	l.does("tokens", chromedp.Navigate(p.address+"/tokens"))
	l.sees(".problem", "this asks for admin")
	l.press("Sign out")
	l.signs(root)

	l.sees("h1", "Tokens")
	l.sees("table.tokens", "<b>reader</b>")
	l.fill(`input[name="name"]`, "new one")
	l.press("Create token")
	l.sees(".made", "pawl_")
	l.sees("table.tokens", "new one")
	l.press("Done")
	l.pictures("tokens")
	l.runs(`[...document.querySelectorAll(".tokens tr")].find((r) => r.textContent.includes("new one"))
		.querySelector("button").click()`)
	l.press("Revoke token")
	l.waits(`!document.querySelector(".tokens").textContent.includes("new one")`)
	l.does("audit", chromedp.Navigate(p.address+"/audit"))
	l.sees("table.audit", "POST /api/v1/runs")
	l.sees("table.audit", "403 refused")
	l.pictures("audit")

	l.does("runs", chromedp.Navigate(p.address+"/runs"))
	l.sees("table.runs", "mine")
	l.runs(`{ const s = document.querySelector(".namespace select"); s.value = "team";
		s.dispatchEvent(new Event("change", {bubbles: true})); }`)
	l.sees(".empty", "There are no runs yet")
	begin(`{"workflow":"small","workflowId":"theirs"}`, "Pawl-Namespace", "team")
	l.sees("table.runs", "theirs") // it follows the namespace
	l.evaluates(`String(document.querySelector("table.runs").textContent.includes("mine"))`, "false")
	kept := `String((JSON.stringify({...localStorage}) + location.href + document.cookie).includes("pawl_"))`
	l.evaluates(kept, "false")
}
