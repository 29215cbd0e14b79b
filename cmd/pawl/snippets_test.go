package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	hasSteps  = regexp.MustCompile(`(?m)^steps:`)
)

// TestSnippets validates what the documents show as YAML: whole flows, flows without their head, which are those that
// begin with their steps, and configuration files. The reference of the language has examples of its own.
func TestSnippets(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	pages := []string{filepath.Join(top, "README.md")}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, filepath.Join("reference", "flow.md")) {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			found++
			wantValid(t, page, block[1])
		}
	}
	if found < 10 {
		t.Errorf("%d snippets: where are they?", found)
	}
}

func wantValid(t *testing.T, page, text string) {
	t.Helper()
	dir := t.TempDir()
	switch {
	case strings.HasPrefix(text, "handlers:"): // handlers of another system's workflow
	case strings.HasPrefix(text, "# /etc/pawl/pawl.yaml"):
		write(t, dir, "pawl.yaml", text)
		server, _, err := (&app{}).rootCommand().Find([]string{"server"})
		if err == nil {
			_, err = readConfig(filepath.Join(dir, "pawl.yaml"), keysOf(server))
		}
		if err != nil {
			t.Errorf("%s shows a configuration that is wrong: %v\n%s", page, err, text)
		}
	default:
		if hasSteps.MatchString(text) && !strings.HasPrefix(text, "pawl: 1\n") {
			text = "pawl: 1\nname: snippet\n" + text
		}
		write(t, dir, "snippet.yaml", text)
		if out, err := command(t, dir, "flow", "validate", "snippet.yaml").CombinedOutput(); err != nil {
			t.Errorf("%s shows a flow that is wrong: %v\n%s\n%s", page, err, out, text)
		}
	}
}
