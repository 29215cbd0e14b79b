package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a text that came from outside (a process's output, a server's answer, a name) safe to show in one line:
// control characters, which could move the cursor or recolour the terminal, and what is not UTF-8 become visible or
// blank.
func Clean(text string) string {
	if clean(text) {
		return text
	}
	return strings.TrimSpace(Visible(text))
}

// Visible does the same and keeps the blanks around the text.
func Visible(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size <= 1:
			b.WriteRune('�')
		case r == '\n', r == '\t', r == '\r':
			b.WriteByte(' ')
		case unsafe(r):
			b.WriteRune('·')
		default:
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

func clean(text string) bool {
	if !utf8.ValidString(text) || strings.TrimSpace(text) != text {
		return false
	}
	return !strings.ContainsFunc(text, unsafe)
}

// unsafe reports control and direction characters.
func unsafe(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
