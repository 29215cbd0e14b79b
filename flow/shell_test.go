package flow

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// harmless matches shell texts that a fuzzer may run: no programs, no functions, nothing in the background. An @ stands
// for an expression.
var (
	harmless  = regexp.MustCompile("^[@ex0 \\n'\"`$(){}<>;#=!\\\\-]*$")
	functions = regexp.MustCompile(`\(\s*\)`)
)

// hostile is a value that runs a command wherever a shell reads it as something else than one word.
const hostile = "x'\"`: >pwned`$(: >pwned); : >pwned\n: >pwned\n#\\"

// FuzzShellText checks that no shell runs a value where a text with quoted expressions is accepted.
func FuzzShellText(f *testing.F) {
	for _, text := range []string{
		"e @", "e '@'", "e \"@\"", "e `e @`", "e $(e @)", "e \"$(e @)\"", "# @", "e # @\n",
		"e <<x\n@\nx\n", "e <<'x'\n@\nx\n", "e <<@\n@\n", "e \\@", "e \\\\@", "x=@ e @", "@",
		"e ${x:-@}", "e \"${x:-@}\"", "e $((@))", "e >@", "e <@", "e $'\\'@", "e $'\\'' @ '", "e $\"@\"",
		"{ e @; }", "(e @)", "e <<-x\n$(e @)\nx\n", "e <<x\n$(e '@')\nx\n", "e @x@@'x'@\"\"@", "! e @",
		"e #@", "e x#@", "e \"\\\"@", "e '\\'@", "e \\\n@", "e $(# @\n)", "e $(e <<x\n@\nx\n)", "x[@]=e",
		"e ${@}", "e $@", "$'\\'$'\"'@", "$'\\''@\"",
	} {
		f.Add(text)
	}
	shells := []string{"/bin/sh"}
	if bash, err := exec.LookPath("bash"); err == nil {
		shells = append(shells, bash)
	}
	input, err := json.Marshal(map[string]string{"x": hostile})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !harmless.MatchString(text) || functions.MatchString(text) || len(text) > 200 {
			return
		}
		doc := &Document{Name: "x", Steps: []*Step{{
			Name: "a", Action: &Exec{Shell: V(strings.ReplaceAll(text, "@", "${{ q(input.x) }}"))},
		}}}
		if _, err := Compile(doc); err != nil || !strings.Contains(text, "@") {
			return
		}
		script := payloadOf(t, doc, input)
		for _, shell := range shells {
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			cmd := exec.CommandContext(ctx, shell, "-c", script)
			cmd.Dir, cmd.Env = dir, []string{"PATH=/nowhere"}
			_ = cmd.Run() // the outcome of the text does not matter
			cancel()
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Fatalf("%s ran the value in\n%s", shell, script)
			}
		}
	})
}

// payloadOf gives the text that a shell is given.
func payloadOf(t *testing.T, doc *Document, input []byte) string {
	t.Helper()
	var payload struct{ Shell string }
	if err := json.Unmarshal(task(t, doc, input), &payload); err != nil {
		t.Fatal(err)
	}
	return payload.Shell
}

// TestQuote checks that a shell reads quoted text back unchanged.
func TestQuote(t *testing.T) {
	doc := &Document{Name: "x", Steps: []*Step{{
		Name: "a", Action: &Exec{Shell: V(`printf '[%s]' ${{ q(input.l) }} ${{ q(input.n) }}`)},
	}}}
	input := `{"l": ["a b", "it's", "$x", "", "\\", "ä\n"], "n": 1.5}`
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", payloadOf(t, doc, []byte(input))).Output()
	if err != nil || string(out) != "[a b][it's][$x][][\\][ä\n][1.5]" {
		t.Errorf("%s, %v", out, err)
	}
	if _, f := evaluate(t, "${{ q(input.x) }}", `{"x": "a\u0000b"}`); f == nil {
		t.Error("a zero byte is quoted")
	}
	for _, expression := range []string{"q(nil)", "q(input.x)", "q([1, input.x])", "string(nil)", "q(input.x?.y)"} {
		got, f := evaluate(t, "${{ "+expression+" }}", `{}`)
		if f == nil || !strings.Contains(f.Message, "it is null") {
			t.Errorf("%s: got %s %v", expression, got, f)
		}
	}
}
