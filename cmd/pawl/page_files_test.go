package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pawl-dev/pawl/internal/nightly"
)

// filesPageFlow has a step that keeps files, and one whose tests fail: it keeps a file, too.
const filesPageFlow = `pawl: 1
name: release
steps:
  - name: build
    exec:
      shell: |
        mkdir -p dist/docs
        echo tool > dist/tool
        head -c 3000000 /dev/zero > dist/data.bin
        echo bold > 'dist/docs/<b>.txt'
      artifacts: dist
  - name: test
    needs: [build]
    exec: {shell: "cp ../unit.xml . && exit 1", dir: reports, tests: unit.xml, artifacts: unit.xml}
`

const unitXML = `<testsuite name="shop">
  <testcase classname="cart" name="adds"/>
  <testcase classname="cart" name="removes &lt;all&gt;" file="cart_test.py" line="12">
    <failure message="3 items are left, want 0"/>
  </testcase>
  <testcase classname="pay" name="refunds"><failure message="no connection to the bank"/></testcase>
  <testcase classname="pay" name="later"><skipped/></testcase>
</testsuite>
`

// TestPageFiles checks that the page shows at a step the files that it has kept, and the tests that failed, and that a
// file can be downloaded there.
func TestPageFiles(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	l, dir := looker{t, browser(t)}, t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "reports"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "release.yaml", filesPageFlow)
	write(t, dir, "unit.xml", unitXML)
	if out, err := command(t, dir, "run", "release.yaml", "--id", "r", "--quiet").CombinedOutput(); err == nil {
		t.Fatalf("the tests do not fail: %s", out)
	}
	l.does("open", chromedp.EmulateViewport(1280, 860), chromedp.Navigate(served(t, dir, ".")+"/run/r"))
	l.counts(".tl .row", 2)
	l.runs(`document.querySelector(".tl .row").click()`)
	l.sees(".step h2", "build")
	l.tab("Files")
	l.counts(".files tbody tr", 3)
	l.sees(".files tbody", "dist/docs/<b>.txt")
	l.sees(".files tbody", "2.9 MiB")
	l.accessible("files")
	l.shot("files")
	l.runs(`fetch(document.querySelector('[aria-label="Download dist/tool"]').href)
		.then((r) => r.text()).then((text) => { window.got = text; })`)
	l.waits(`window.got === "tool\n"`)
	l.runs(`[...document.querySelectorAll(".tl .row")].at(-1).click()`)
	l.sees(".step h2", "test")
	l.tab("Tests")
	l.sees(".tests", "removes <all>")
	l.sees(".tests", "cart · reports/cart_test.py:12")
	l.sees(".step .tab", "1 of 4 passed, 2 failed, 1 skipped.")
	l.accessible("tests")
	l.shot("tests")
	l.tab("Files")
	l.sees(".files", "unit.xml")
}
