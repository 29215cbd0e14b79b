package flow

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestMatrix checks which combinations a matrix has, and in which order.
func TestMatrix(t *testing.T) {
	for _, c := range []struct{ matrix, want string }{
		{`{os: [a, b], v: [1, 2]}`, `[{"os":"a","v":1},{"os":"a","v":2},{"os":"b","v":1},{"os":"b","v":2}]`},
		{`{os: [a, b], v: [1, 2], exclude: [{os: a}, {os: b, v: 2}]}`, `[{"os":"b","v":1}]`},
		{`{os: [a, b], v: "${{ [1, 2] }}", exclude: [{v: 1}]}`, `[{"os":"a","v":2},{"os":"b","v":2}]`},
		{
			`{os: [a, b], include: [{fast: true}, {os: b, fast: false}, {os: c}, {os: c, more: 1}]}`,
			`[{"fast":true,"os":"a"},{"fast":false,"os":"b"},{"os":"c"},{"more":1,"os":"c"}]`,
		},
		{`{os: [a], exclude: [{os: a}], include: "${{ [{'os': 'z'}] }}"}`, `[{"os":"z"}]`},
		{`{os: "${{ 1..3 }}", exclude: [{os: 2}]}`, `[{"os":1},{"os":3}]`},
	} {
		doc, err := Parse("x.yaml", []byte("pawl: 1\nname: x\nsteps: [{name: a, matrix: "+c.matrix+", noop: {}}]"))
		if err != nil {
			t.Fatal(c.matrix, err)
		}
		steps, err := doc.Preview(nil)
		if err != nil {
			t.Fatal(c.matrix, err)
		}
		if got, err := json.Marshal(steps[0].ForEach); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.matrix, got, err)
		}
		text, err := Encode(doc)
		if err != nil || !strings.Contains(string(text), "matrix:") {
			t.Errorf("%s: %s, %v", c.matrix, text, err)
		}
	}
}

// TestBadMatrix checks that a matrix which cannot be meant is refused at its place, with what to write.
func TestBadMatrix(t *testing.T) {
	for step, want := range map[string]string{
		`matrix: {}`:                                      `the matrix has no axes; add one: os: [linux, mac]`,
		`matrix: [a]`:                                     `matrix is a mapping from axes to lists, not a list`,
		`matrix: {os: linux}`:                             `the axis os is a list or one expression that gives a list`,
		`matrix: {os: []}`:                                `the axis os is empty`,
		`matrix: {a-b: [1]}`:                              `the name of an axis, "a-b"`,
		`matrix: {os: [a]}, forEach: [1]`:                 `a step has forEach or matrix, not both`,
		`itemName: x`:                                     `itemName names the items of forEach or matrix`,
		`matrix: {os: [a], exclude: [{so: a}]}`:           `the matrix has no axis "so"; did you mean "os"`,
		`matrix: {os: [a], include: {os: a}}`:             `include is a list of combinations, not a mapping`,
		`matrix: {os: [a], include: [1]}`:                 `a combination is a mapping from axes to values, not 1`,
		`matrix: {os: [a]}, itemName: "${{ itm }}"`:       `unknown name itm`,
		`matrix: {os: [a]}, itemName: "${{ matrix.os }}"`: `unknown name matrix; write item`,
	} {
		_, err := Parse("x.yaml", []byte("pawl: 1\nname: x\nsteps: [{name: a, noop: {}, "+step+"}]"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.yaml:3:") {
			t.Errorf("%s: %v", step, err)
		}
	}
}
