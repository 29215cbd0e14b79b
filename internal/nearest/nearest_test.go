package nearest

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	flags := []string{"database", "output", "no-color", "actor", "reason"}
	keys := []string{"exec", "http", "sleep", "retry", "concurrency", "timeout"}
	for _, c := range []struct {
		word  string
		known []string
		want  string
	}{
		{"databse", flags, "database"},   // a letter is missing
		{"ouptut", flags, "output"},      // two are swapped
		{"no-colour", flags, "no-color"}, // one is too many
		{"DATABASE", flags, "database"},  // case does not count
		{"concur", keys, "concurrency"},  // cut short
		{"exce", keys, "exec"},           // short words bear one change or two
		{"tyr", keys, ""},                // but not most of their letters
		{"x", keys, ""},                  // a letter is near nothing
		{"", keys, ""},                   // nothing is, too
		{"polynomial", keys, ""},         // far from all
		{"retry", nil, ""},               // nothing is known
		{"runTimeout", []string{"workflowRunTimeout"}, "workflowRunTimeout"}, // the end of it
		{"backofff", []string{"backoffCoefficient"}, "backoffCoefficient"},   // the start of it
		{"exec", keys, ""},                    // a known word is not misspelt
		{"exec", []string{"exec", "exe"}, ""}, // not even if another one is near
		{"größe", []string{"große"}, "große"},
		{strings.Repeat("retry", 20), keys, ""},
	} {
		if got := Word(c.word, c.known); got != c.want {
			t.Errorf("Word(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}

func TestHint(t *testing.T) {
	if got, want := Hint("exce", []string{"exec"}), `did you mean "exec"?`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Hint("polynomial", []string{"exec"}); got != "" {
		t.Errorf("got %q where nothing is near", got)
	}
}

func FuzzWord(f *testing.F) {
	f.Add("exce", "exec", "http")
	f.Fuzz(func(t *testing.T, word, a, b string) {
		if got := Word(word, []string{a, b}); got != "" && got != a && got != b {
			t.Errorf("Word(%q, %q, %q) = %q", word, a, b, got)
		}
		if got := Word(word, []string{a, word, b}); got != "" {
			t.Errorf("Word(%q) = %q, but the word is known", word, got)
		}
	})
}
