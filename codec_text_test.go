package pawl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
)

// FuzzText compares how payloads are read as text with encoding/json.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		`"plain"`, `""`, `"größer 世界"`, `"a\nb"`, `"a"b"`, `"\"`, `"`, ``, `"a` + "\n" + `b"`, `"` + "\x7f" + `"`,
		`"` + "\xff" + `"`, ` "a"`, `"a" `, `null`, `1`, `"\u00e9"`, `"` + strings.Repeat("x", 100) + "\x1f" + `"`,
		"eight by", "a<b", "a>b", "a&b", "a\u2028", "\x00", "\u00e9 and more than eight", "\xe9 and more",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		var want string
		wantErr := json.Unmarshal([]byte(payload), &want)
		got, ok := pawl.PlainText([]byte(payload))
		if ok && (wantErr != nil || got != want) {
			t.Errorf("%q is read as %q; encoding/json: %q, %v", payload, got, want, wantErr)
		}
		for _, text := range []string{payload, want} {
			encoded, err := json.Marshal(text)
			if b, ok := pawl.WriteText(text); ok && (err != nil || string(b) != string(encoded)) {
				t.Errorf("%q is written as %s; encoding/json: %s, %v", text, b, encoded, err)
			} else if !ok && string(encoded) == `"`+text+`"` {
				t.Errorf("%q is not taken for plain text", text)
			}
		}
		plain := wantErr == nil && strings.HasPrefix(payload, `"`) && payload == `"`+want+`"`
		if plain && !ok {
			t.Errorf("%q is not taken for plain text", payload)
		}
	})
}
