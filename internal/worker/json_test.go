package worker

import "testing"

func TestAppendText(t *testing.T) {
	for _, text := range []string{
		"", "plain", "a \"quoted\" one", `back\slash`, "line\nbreak",
		"\x00", "\x7f", "<&>", "ü", "\u2028", "broken \xff",
	} {
		want := "{" + string(EncodeJSON(text))
		if got := string(AppendText([]byte("{"), text)); got != want {
			t.Errorf("%q became %s, want %s", text, got, want)
		}
	}
}
