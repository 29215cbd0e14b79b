package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/pawl-dev/pawl/duration"
	"github.com/pawl-dev/pawl/internal/nightly"
)

// TestPageTimes checks that the page reads and writes lengths as Pawl does.
func TestPageTimes(t *testing.T) {
	nightly.Only(t, "a browser of its own")
	t.Parallel()
	maths, err := os.ReadFile(filepath.Join("testdata", "page_time.js"))
	if err != nil {
		t.Fatal(err)
	}
	built := api.Build(api.BuildOptions{
		Stdin: &api.StdinOptions{
			Contents: string(maths), ResolveDir: filepath.Join("..", "..", "web", "app", "src"), Loader: api.LoaderTS,
		},
		Bundle: true, Format: api.FormatIIFE, Target: api.ES2022,
	})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}
	var lengths [][2]any
	for range 2000 {
		ms := rand.Int64N(1 << rand.IntN(36))
		lengths = append(lengths, [2]any{duration.Format(time.Duration(ms) * time.Millisecond), ms})
	}
	texts, err := json.Marshal(lengths)
	if err != nil {
		t.Fatal(err)
	}
	l := looker{t, browser(t)}
	l.does("load the page's own code", chromedp.Navigate("about:blank"), noted(string(built.OutputFiles[0].Contents)))
	l.evaluates(`JSON.stringify(differs(`+string(texts)+`).slice(0, 5))`, "[]")
	l.evaluates(`differs([["1s", 7]]).join()`, "1s is read as 1000")
}
