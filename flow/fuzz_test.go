package flow

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// FuzzTemplates checks that every file of templates is refused with a place, or gives a flow that can be written
// without templates and means the same.
func FuzzTemplates(f *testing.F) {
	for _, seed := range []struct{ file, value string }{
		{"pawl: 1\ntemplates: {t: {parameters: {v: }, noop: {output: \"${{ with.v }}\"}}}\n", "1"},
		{
			"pawl: 1\ntemplates:\n  t:\n    parameters: {v: {default: x}}\n    exec: 'echo ${{ q(with.v) }}'\n",
			"\"a b\"",
		},
		{"pawl: 1\ntemplates: {t: {parameters: {v: , w: {default: [\"${{ input.a }}\"]}}, " +
			"forEach: \"${{ with.w }}\", noop: {output: \"$${{ ${{ with.v }}$\"}}}\n", "\"n is ${{ input.n }}$\""},
		{"pawl: 1\ntemplates: {t: {parameters: {v: }, sleep: \"${{ with.v }}\", retry: none}}\n", "1s"},
		{"pawl: 1\ntemplates: {t: {parameters: {v: }, http: \"http://${{ with.v }}/\", " +
			"retry: {maxAttempts: 3, when: \"code != with.v\"}}}\n", "{a: [1, null, {b: -0.5}]}"},
		{"templates: {t: &x [*x]}\n", "x"},
		{" ", "0"}, // an empty file
	} {
		f.Add(seed.file, seed.value)
	}
	f.Fuzz(func(t *testing.T, file, value string) {
		src := "pawl: 1\nname: x\ntemplates: {t: {from: t.yaml}}\nsteps:\n  - name: a\n    template: t\n    with:\n" +
			"      v: " + strings.ReplaceAll(value, "\n", "\n        ") + "\n"
		doc, err := ParseFiles("x.yaml", []byte(src), func(string) ([]byte, error) { return []byte(file), nil })
		if err != nil {
			if !strings.Contains(err.Error(), ".yaml:") {
				t.Errorf("an error without a place: %v", err)
			}
			return
		}
		_ = Lint(doc, lintedAt)
		text, err := Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := Parse("plain.yaml", text)
		if err != nil {
			t.Fatalf("without templates it is not valid: %v\n%s", err, text)
		}
		if again, err := Encode(plain); err != nil || !bytes.Equal(text, again) {
			t.Errorf("it is another flow without templates (%v):\n%s\n%s", err, text, again)
		}
	})
}

// FuzzExpressions checks that an expression ends with a value or an error, the same one each time, in an input and as
// the parameter of a template.
func FuzzExpressions(f *testing.F) {
	for _, seed := range []string{
		"input.l[1] + 1", "keys(input.m)", "map(input.l, # * 2)", "string(timezone('UTC'))", "'}}' + input.s",
		"let d = input.a; d + d", "toJSON({'b': [1, nil, '<']})", "reduce(1..64, #acc + #acc, 'x')", "input?.x ?? 'd'",
		"date('2026-01-02T15:04:05Z').In(timezone('Europe/Berlin')).Hour()", "{'a': now.Sub}", "repeat('x', 100000000)",
		"count(1..100000, count(1..100000, true) > 0)", "input.s matches '^(x+x+)+y$'", "fromJSON('[1e400]')",
	} {
		f.Add(seed)
	}
	const input = `{"a": 1, "s": "x", "l": [3, 1, 2], "m": {"b": 2, "a": 1}, "n": null, "f": 1.5}`
	f.Fuzz(func(t *testing.T, expression string) {
		texts := []string{
			"pawl: 1\nname: x\nsteps: [{name: a, noop: {output: " + strconv.QuoteToASCII("${{ "+expression+" }}") +
				"}}]\n",
			"pawl: 1\nname: x\ntemplates: {t: {parameters: {v: }, noop: {output: \"${{ with.v }}\"}}}\n" +
				"steps: [{name: a, template: t, with: {v: " + strconv.QuoteToASCII("${{ "+expression+" }}") + "}}]\n",
		}
		var first string
		for i := range 4 {
			doc, err := Parse("x.yaml", []byte(texts[i/2]))
			if err != nil {
				return
			}
			payload, failure := firstTask(t, doc, []byte(input))
			got := string(payload)
			if failure != nil {
				got, _, _ = strings.Cut(failure.Message, " (x.yaml")
			}
			if i == 0 {
				first = got
			} else if got != first {
				t.Fatalf("%s gives\n%s\nand then\n%s", expression, first, got)
			}
		}
	})
}
