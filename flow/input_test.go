package flow

import (
	"strings"
	"testing"
)

// TestInputOfFlowWithoutSchema checks that a flow without a schema takes the keys that its expressions use, and no
// others.
func TestInputOfFlowWithoutSchema(t *testing.T) {
	const uses = "pawl: 1\nname: x\nsteps:\n" +
		"- {name: a, when: \"'debug' in input\", exec: 'echo ${{ q(input.name) }}'}\n"
	for _, c := range []struct{ flow, input, want string }{
		{uses, ``, `{}`},
		{uses, `{"name": "ann", "debug": true}`, ``},
		{uses, `{"nmae": "ann"}`, `input.nmae: not known; did you mean "name"?`},
		{uses, `[1]`, `input: the flow takes no such value`},
		{"pawl: 1\nname: x\nsteps: [{name: a, noop: {}}]", ``, `null`},
		{"pawl: 1\nname: x\nsteps: [{name: a, noop: {}}]", `{}`, `{}`},
		{"pawl: 1\nname: x\nsteps: [{name: a, noop: {}}]", `{"a": 1}`, `input.a: not known; the flow uses no input`},
		{"pawl: 1\nname: x\ninput: true\nsteps: [{name: a, noop: {}}]", `{"a": 1}`, ``},
		{"pawl: 1\nname: x\nsteps: [{name: a, noop: {output: '${{ input }}'}}]", `[{"a": 1}]`, ``},
		{"pawl: 1\nname: x\nsteps: [{name: a, noop: {output: '${{ input.b[input.c] }}'}}]", `{"c": 1}`, ``},
		{"pawl: 1\nname: x\nsteps: [{name: a, noop: {output: '${{ keys(input) }}'}}]", `{"z": 1}`, ``},
		{
			"pawl: 1\nname: x\noutput: '${{ input.last ?? 1 }}'\ntimeout: '${{ input.limit }}'\nsteps:\n" +
				"- {name: a, noop: {}, retry: {maxAttempts: 2, when: input.again}}",
			`{"limit": "5m", "last": 1, "again": true}`, ``,
		},
	} {
		doc, err := Parse("x.yaml", []byte(c.flow))
		if err != nil {
			t.Fatal(err)
		}
		got, err := doc.CheckInput([]byte(c.input))
		text := string(got)
		if err != nil {
			text = err.Error()
		}
		if want := c.want; want == "" && (err != nil || text != c.input) || !strings.Contains(text, want) {
			t.Errorf("%s\n%s: %s", c.flow, c.input, text)
		}
	}
}
