package house

import (
	"regexp"
	"testing"
)

var (
	fence = regexp.MustCompile("(?m)^```(\\S*)$")
	// The marks say whether TestManual of cmd/pawl runs a block of commands; else they say why not.
	marked = regexp.MustCompile("(?m)^<!-- (run|run beside|not run: .+) -->\n```sh$")
)

// TestCommandsAreMarked checks that each block of README and of the manual says its language, and that each block of
// commands is marked.
func TestCommandsAreMarked(t *testing.T) {
	pages := guide(t)
	pages["../../README.md"] = page(t, "README.md")
	for name, text := range pages {
		commands := 0
		for i, m := range fence.FindAllStringSubmatch(text, -1) {
			switch opens := i%2 == 0; {
			case opens && m[1] == "":
				t.Errorf("%s: block %d has no language: sh for commands, text for what they print", name, i/2+1)
			case opens && m[1] == "sh":
				commands++
			}
		}
		if n := len(marked.FindAllString(text, -1)); n != commands {
			t.Errorf("%s: %d of %d blocks of commands have <!-- run --> or <!-- not run: why --> in the line before",
				name, n, commands)
		}
	}
}
