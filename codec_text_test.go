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
		plain := wantErr == nil && strings.HasPrefix(payload, `"`) && payload == `"`+want+`"`
		if plain && !ok {
			t.Errorf("%q is not taken for plain text", payload)
		}
	})
}
