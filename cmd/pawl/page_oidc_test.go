//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestPageSignsIn checks that a person signs in at a real issuer with a browser, comes back to the page that was asked
// for, stays signed in when it is loaded again, and signs out. No script can read the session.
func TestPageSignsIn(t *testing.T) {
	nightly.Only(t, "a browser of its own, and an issuer")
	t.Parallel()
	l := looker{t, browser(t)}
	p, id := startWithIssuer(t, t.TempDir(), time.Minute)
	l.does("ask for the audit log", chromedp.Navigate(p.address+"/audit"))
	l.sees("h1", "Sign in")
	l.sees(".signin a.main", "Sign in at 127.0.0.1")
	l.runs(`document.querySelector(".signin a.main").click()`)
	l.does("wait for the form of the issuer", chromedp.WaitVisible(chromedp.CSS("input[name=password]")))
	l.evaluates("location.origin", id.address)
	l.fill("input[name=username]", "ada")
	l.fill("input[name=password]", "secret")
	l.runs(`document.querySelector("button[type=submit]").click()`)
	l.does("come back", chromedp.WaitVisible(chromedp.CSS("table.audit")))
	l.sees("table.audit", "/login/callback")
	l.evaluates("location.href", p.address+"/audit")
	l.sees(".who", "ada@example.com, admin")
	l.evaluates("document.cookie", "")
	l.does("load it again", chromedp.Reload())
	l.sees(".who", "ada@example.com, admin")
	l.press("Sign out")
	l.sees("h1", "Sign in")
	l.does("load it again", chromedp.Reload())
	l.sees("h1", "Sign in")
}
