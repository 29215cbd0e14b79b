package naming

import "testing"

// TestItem checks what names an item of a loop.
func TestItem(t *testing.T) {
	for text, want := range map[string]struct {
		step, item string
		ok         bool
	}{
		"test[mac, 3]": {"test", "mac, 3", true},
		"a[b[c]]":      {"a", "b[c]", true},
		"pages[3]":     {"pages", "3", false},
		"pages[-3]":    {"pages", "-3", true},
		"pages[]":      {"pages", "", false},
		"pages":        {"pages", "", false},
		"pages[x":      {"pages", "x", false},
	} {
		step, item, ok := Item(text)
		if ok != want.ok || ok && (step != want.step || item != want.item) {
			t.Errorf("%s: %q, %q, %v", text, step, item, ok)
		}
	}
}
