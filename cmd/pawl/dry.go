package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
	"github.com/pawl-dev/pawl/flow"
)

// dryRun shows what the steps of a flow would do with an input. Values that are only known during a run are shown as
// they are written.
func (a *app) dryRun(c *compiled, args []string) error {
	input, err := a.readInput(c, args)
	if err != nil {
		return err
	}
	steps, err := c.Doc.Preview(input)
	if err != nil {
		return asUsage(err)
	}
	if a.structured() {
		return a.print(steps)
	}
	a.say("%s would run %s; nothing was started. What only the run knows stands in ${{ }}.",
		screen.Clean(c.Doc.Name), count(len(steps), "step"))
	for _, s := range steps {
		a.tellPreview(s)
	}
	return nil
}

func (a *app) tellPreview(s flow.Preview) {
	head := fmt.Sprintf("\n%s  %s", s.Name, s.Kind)
	if len(s.Needs) > 0 {
		head += ", after " + strings.Join(s.Needs, ", ")
	}
	switch {
	case s.Skipped:
		head += ", skipped: " + s.When + " is false"
	case s.When != "":
		head += ", if " + s.When
	}
	a.say("%s", visibleLines(head))
	if s.ForEach != nil {
		if list, ok := s.ForEach.([]any); ok {
			a.say("  for each of %s: %s", count(len(list), "item"), compactOf(list))
		} else {
			a.say("  for each of %s", compactOf(s.ForEach))
		}
	}
	var fields map[string]any
	if json.Unmarshal(s.Task, &fields) != nil {
		if len(s.Task) > 0 && string(s.Task) != "null" {
			a.say("  %s", screen.Clean(string(s.Task)))
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		a.tellField(name, fields[name])
	}
}

func (a *app) tellField(name string, v any) {
	text, isText := v.(string)
	words, isList := v.([]any)
	switch {
	case isList && name == "command":
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = quotedWord(fmt.Sprint(w))
		}
		a.say("  $ %s", screen.Clean(strings.Join(quoted, " ")))
	case isText && name == "shell":
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			a.say("  $ %s", screen.Visible(line))
		}
	case isText:
		a.say("  %s: %s", name, screen.Clean(text))
	default:
		a.say("  %s: %s", name, compactOf(v))
	}
}

// quotedWord returns a word as a shell needs it.
func quotedWord(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$&|;<>()*?[]{}~#`!") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func compactOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return screen.Clean(string(text))
}

// visibleLines returns a text whose lines hold no control characters.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = screen.Visible(line)
	}
	return strings.Join(lines, "\n")
}
