package main

import (
	"os"
	"strings"
	"testing"
)

// TestReadme checks that the flow that README shows is one to copy: it is valid, and the lint finds nothing in it.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	flows := 0
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		src, _, _ := strings.Cut(block, "```")
		if !strings.HasPrefix(src, "pawl: 1\n") {
			continue
		}
		flows++
		doc, err := new(app).parseFlow("README.md", []byte(src))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, w := range lint(doc, false) {
			t.Errorf("%s", w)
		}
	}
	if flows == 0 {
		t.Error("README shows no flow")
	}
}
