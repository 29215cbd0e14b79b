package tree

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyTextReadsBack checks that every text reads back, as a value, a key and an item.
func TestAnyTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(),
			rapid.StringMatching(`[a-z0-9 :#'"\\\n\t{}\[\],&*!|>%@-]{0,30}`)).Draw(t, "text")
		n := nodeOf(map[string]any{
			"a": text, "b": []any{text, map[string]any{"k": text, "l": text, "m": text}},
			"c": map[string]any{"x" + text: 1},
		})
		r := &Reports{Source: NewSource("x.yaml", string(YAML(n)))}
		back := Parse(r, string(YAML(n)))
		if back == nil {
			t.Fatalf("%v\n%s", r.Err(), YAML(n))
		}
		if !reflect.DeepEqual(back.Any(), n.Any()) {
			t.Fatalf("%q became %#v\n%s", text, back.Any(), YAML(n))
		}
	})
}

// TestWrittenTextStaysReadable checks that characters that are special in HTML stand for themselves beside a quote.
func TestWrittenTextStaysReadable(t *testing.T) {
	const text = `a "x" <b> && 'c'`
	if got, want := string(AppendText(nil, text)), `"a \"x\" <b> && 'c'"`; got != want {
		t.Errorf("%q is written as %s, not %s", text, got, want)
	}
}
