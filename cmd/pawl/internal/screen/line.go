package screen

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Style is how a span looks. Colour is never the only sign: a line reads the same without it.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Bold
	Dim
	Good    // it succeeded
	Bad     // it failed
	Warn    // it backs off, or little time is left
	Active  // it runs
	Reverse // a question
)

var codes = [...]string{"", "1", "2", "32", "31", "33", "36", "7"}

// Span is a piece of text in one style.
type Span struct {
	Text  string
	Style Style
}

// Line is one line on the screen.
type Line []Span

// T makes a line of one plain text.
func T(text string) Line { return Line{{Text: text}} }

// Add appends a span; an empty text adds nothing.
func (l Line) Add(style Style, text string) Line {
	if text == "" {
		return l
	}
	return append(l, Span{text, style})
}

// Width returns the number of cells that the line takes.
func (l Line) Width() int {
	n := 0
	for _, s := range l {
		n += Width(s.Text)
	}
	return n
}

// Pad adds blanks until the line is width cells wide.
func (l Line) Pad(width int) Line {
	return l.Add(Plain, strings.Repeat(" ", max(width-l.Width(), 0)))
}

// Cut shortens the line to width cells; an ellipsis shows that something was cut.
func (l Line) Cut(width int) Line {
	if l.Width() <= width {
		return l
	}
	var out Line
	left := width
	for _, s := range l {
		w := Width(s.Text)
		if w < left {
			out, left = append(out, s), left-w
			continue
		}
		return append(out, Span{Cut(s.Text+"…", left), s.Style})
	}
	return out
}

// String returns the line without styles and without blanks at its end.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return strings.TrimRight(b.String(), " ")
}

// Render returns the line as a terminal shows it.
func (l Line) Render(color bool) string {
	if !color {
		return l.String()
	}
	var b strings.Builder
	for _, s := range l {
		if codes[s.Style] == "" {
			b.WriteString(s.Text)
			continue
		}
		b.WriteString("\x1b[" + codes[s.Style] + "m" + s.Text + "\x1b[0m")
	}
	return b.String()
}

// Width returns the number of cells that a text takes in a terminal outside East Asia; in one with wider characters
// bars and arrows come out too long.
func Width(text string) int { return displaywidth.String(text) }

// Cut shortens a text to width cells, with an ellipsis where something is missing.
func Cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if Width(text) <= width {
		return text
	}
	return displaywidth.TruncateString(text, width, "…")
}

// Pad fills a text up to width cells.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-Width(text), 0))
}

// Wrap breaks a text into lines of at most width cells, between words where it can.
func Wrap(text string, width int) []string {
	width = max(width, 10)
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for Width(word) > width {
			head := displaywidth.TruncateString(word, width, "")
			if line != "" {
				lines, line = append(lines, line), ""
			}
			lines, word = append(lines, head), word[len(head):]
		}
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
