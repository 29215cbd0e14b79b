package flow

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyTextReadsBack: every text, as a value, a key and an item.
func TestAnyTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9 :#'"\\\n\t{}\[\],&*!|>%@-]{0,30}`)).Draw(t, "text")
		n := nodeOf(map[string]any{"a": text, "b": []any{text, map[string]any{"k": text, "l": text, "m": text}}, "c": map[string]any{"x" + text: 1}})
		r := &reports{src: newSource("x.yaml", string(writeYAML(n)))}
		back := read(r, string(writeYAML(n)))
		if back == nil {
			t.Fatalf("%v\n%s", r.err(), writeYAML(n))
		}
		if !reflect.DeepEqual(back.value(), n.value()) {
			t.Fatalf("%q became %#v\n%s", text, back.value(), writeYAML(n))
		}
	})
}

// TestWrittenTextStaysReadable: signs that HTML would mind stand for themselves beside a quote.
func TestWrittenTextStaysReadable(t *testing.T) {
	const text = `a "x" <b> && 'c'`
	if got, want := string(appendString(nil, text)), `"a \"x\" <b> && 'c'"`; got != want {
		t.Errorf("%q is written as %s, not %s", text, got, want)
	}
}
