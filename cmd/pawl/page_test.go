package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// pageFlow has a step that backs off for long, one that waits for an event, and an end with markup in it.
const pageFlow = `pawl: 1
name: shop
timeout: 1h
steps:
  - {name: pack, exec: "echo packed"}
  - name: charge
    needs: [pack]
    exec: "echo '<b>no money</b>'; exit 3"
    retry: "exponential(6, 10m, jitter=0.3)"
    timeout: {scheduleToClose: {after: 50m, warn: 80%}}
  - {name: approval, needs: [pack], wait: {event: approved}, timeout: 30m}
`

// browser returns a browser that ends with the test. Where there is none the test is skipped, unless
// PAWL_REQUIRE_BROWSER is set.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("PAWL_REQUIRE_BROWSER") != "" {
			t.Fatal("there is no Chromium")
		}
		t.Skip("SKIPPED: there is no Chromium, so the page was not tried")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true), chromedp.UserDataDir(t.TempDir()))
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(end)
	ctx, end = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	return ctx
}

// served runs pawl dev on a database in a folder. It returns its address.
func served(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return servedBy(t, command(t, dir, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...)...))
}

// servedBy starts a server and returns its address. It ends with the test, without an error.
func servedBy(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ends with %v\n%s", err, said.String())
		}
	})
	fields := strings.Fields(first)
	if err != nil || len(fields) < 2 || fields[0] != "serving" {
		t.Fatalf("pawl dev says %q, %v\n%s", first, err, said.String())
	}
	return fields[1]
}

// looker is a person at a page.
type looker struct {
	*testing.T
	ctx context.Context
}

// does acts on the page.
func (l looker) does(what string, steps ...chromedp.Action[chromedp.Void]) {
	l.Helper()
	if err := chromedp.Do(l.ctx, steps...); err != nil {
		l.Fatalf("%s: %v", what, err)
	}
}

// sees waits until an element shows a text.
func (l looker) sees(selector, want string) {
	l.Helper()
	holds := fmt.Sprintf(`document.querySelector(%q)?.textContent.includes(%q) === true`, selector, want)
	_, err := chromedp.Run(l.ctx, chromedp.Poll[bool](holds, chromedp.WithPollingTimeout(20*time.Second)))
	if err != nil {
		shows := fmt.Sprintf(`document.querySelector(%q)?.textContent ?? "nothing"`, selector)
		has, _ := chromedp.Run(l.ctx, chromedp.Evaluate[string](shows))
		l.Fatalf("%s does not come to show %q; it shows %q: %v", selector, want, has, err)
	}
}

func (l looker) click(selector string) {
	l.Helper()
	l.does("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// press presses the button with a label.
func (l looker) press(label string) {
	l.Helper()
	l.presses("button", fmt.Sprintf(`b.textContent.trim() === %q`, label))
}

// tab chooses a tab by the beginning of its label.
func (l looker) tab(label string) {
	l.Helper()
	l.presses("button[role=tab]", fmt.Sprintf(`b.textContent.trim().startsWith(%q)`, label))
}

// presses presses the first button b of a selector for which a condition holds, once nothing lies above it. That is one
// act of the page, between two pictures of which a button may move.
func (l looker) presses(selector, condition string) {
	l.Helper()
	l.waits(fmt.Sprintf(`(() => {
		const b = [...document.querySelectorAll(%q)].find((b) => %s);
		b?.scrollIntoView({ block: "nearest" });
		const at = b?.getBoundingClientRect();
		if (!at || b.disabled || !b.contains(document.elementFromPoint(at.x + at.width / 2, at.y + at.height / 2))) {
			return false;
		}
		b.focus();
		b.click();
		return true;
	})()`, selector, condition))
}

// menu presses a button of the menu that a part of the page has.
func (l looker) menu(part, label string) {
	l.Helper()
	l.click(part + " .menu summary")
	l.runs(fmt.Sprintf(`[...document.querySelectorAll(%q)].find((b) => b.textContent === %q).click()`,
		part+" .menu button", label))
}

// counts waits until there are at least so many elements.
func (l looker) counts(selector string, least int) {
	l.Helper()
	enough := fmt.Sprintf(`document.querySelectorAll(%q).length >= %d`, selector, least)
	_, err := chromedp.Run(l.ctx, chromedp.Poll[bool](enough, chromedp.WithPollingTimeout(20*time.Second)))
	if err != nil {
		l.Errorf("there are no %d of %s: %v", least, selector, err)
	}
}

// shot keeps a picture of the page where PAWL_SHOTS names a folder.
func (l looker) shot(name string) {
	l.Helper()
	dir := os.Getenv("PAWL_SHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(l.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		l.Error(err)
	}
}

// TestPage checks that a person sees in the browser what a run is doing, which deadline binds it and what comes, and
// acts on it.
func TestPage(t *testing.T) {
	t.Parallel()
	l := looker{t, browser(t)}
	dir := t.TempDir()
	write(t, dir, "shop.yaml", pageFlow)
	address := served(t, dir, ".")
	start := command(t, dir, "run", "--detach", "shop.yaml", "--id", "order-42", "--label", "tenant=<i>acme</i>")
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	console := chromedp.Console(l.ctx)
	l.does("open the page", chromedp.EmulateViewport(1440, 900), chromedp.Navigate(address+"/runs"))
	l.sees("table.runs", "order-42")
	l.sees("table.runs", "tenant=<i>acme</i>")
	l.shot("runs")

	l.click("table.runs tbody a")
	l.sees(".why", "charge retries in ")
	l.sees(".why", ", attempt 2 of 6; attempt 1 failed: exit code 3")
	l.sees(".why", "1 more step is open")
	l.sees(".ends", "shop.yaml:10:")
	l.sees("header.run", "tenant=<i>acme</i>")
	l.sees("header.run", "1 of 3 steps done")
	l.sees(".tl", "approval")
	l.counts(".bar.ahead", 2)
	l.counts(".tl-lines .limit", 3) // also those that are far away
	l.sees(".tl-ends", "run 1h")

	l.sees(".step h2", "charge") // the step that matters is open
	l.sees(".attempts", "error, code 3")
	l.sees(".message", "exit code 3")
	l.sees(".why", "If its attempts fail")
	l.tab("Policy")
	l.sees(".step", "Policy in force")
	l.tab("Log")
	l.sees(".log", "<b>no money</b>")
	l.shot("run")

	l.menu(".step", "Extend…")
	l.sees("dialog", "If every attempt fails:")
	l.sees(".preview", "scheduleToClose until")
	l.shot("extend")
	l.press("Back")
	l.press("Pause…")
	l.sees("dialog", "nothing new begins")
	l.does("pause", chromedp.SendKeys(chromedp.CSS("dialog label:not(.check) input"), "lunch\r"))
	l.sees(".why", "Paused by page ")
	l.sees(".why", "ago: lunch.")
	l.sees(".operations", "pause by page: lunch")
	l.press("Resume")
	l.sees("dialog", "fresh deadlines")
	l.does("resume", chromedp.SendKeys(chromedp.CSS("dialog input"), "\r"))
	l.sees(".why", "charge retries in ")
	l.does("a narrow screen", chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	l.shot("run-narrow")

	l.does("mark the end", noted(`console.log("the end")`))
	for m, err := range console {
		if err != nil {
			t.Fatal(err)
		}
		if m.Text == "the end" {
			break
		}
		if strings.Contains(m.Text, "405") { // the clock of this server goes by itself, and it says so
			continue
		}
		t.Errorf("the page complains: %s", m)
	}
}

// noted evaluates something for what it does.
func noted(script string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (v chromedp.Void, err error) {
		_, err = chromedp.Evaluate[bool](script+"; true")(ctx, target)
		return v, err
	}
}

// writeFolder writes a file and the folders above it.
func writeFolder(dir, name, text string) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// waits waits until something is true on the page.
func (l looker) waits(condition string) {
	l.Helper()
	poll := chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(patience))
	if _, err := chromedp.Run(l.ctx, poll); err != nil {
		l.Fatalf("%s does not come to be true: %v", condition, err)
	}
}
