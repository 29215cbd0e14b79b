package flow

import (
	"strings"
	"testing"
)

// TestLintPipes checks that scripts with a pipe are told of where /bin/sh does not know pipefail, and those with a
// shell of their own are not.
func TestLintPipes(t *testing.T) {
	doc, err := Parse("x.yaml", []byte(`pawl: 1
name: x
services: {own: {exec: {interpreter: [bash, -c]}}}
steps:
  - {name: piped, exec: "false | tee ${{ q(run.id) }}"}
  - {name: or, exec: "false || true; case x in x|y) ;; esac"}
  - {name: text, exec: "echo 'a | b'"}
  - {name: chosen, exec: {shell: "a | b", interpreter: [bash, -c]}}
  - {name: served, service: own, exec: "a | b"}
hooks: {onExit: {exec: "a | b"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, f := range LintPipes(doc) {
		told = append(told, f.Step)
	}
	if got := strings.Join(told, " "); got != "piped onExit" {
		t.Errorf("told of %s", got)
	}
}
