package topic

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/screen"
)

// writer writes sections as plain text.
type writer struct {
	strings.Builder
	width   int
	written []*section
}

// widest is how wide the column of names may become.
const widest = 26

// link is a link of Markdown, of which the text is shown, and bold is a text in bold type.
var (
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	bold = regexp.MustCompile("\\*\\*([^*`]+)\\*\\*")
)

// plain returns a text without the marks of Markdown.
func plain(text string) string {
	text = bold.ReplaceAllString(link.ReplaceAllString(text, "$1"), "$1")
	return strings.ReplaceAll(text, "`", "")
}

func (w *writer) has(s *section) bool { return slices.Contains(w.written, s) }

// section writes a section, unless that is done already.
func (w *writer) section(s *section) {
	if w.has(s) {
		return
	}
	w.written = append(w.written, s)
	w.title(s.title)
	for lines := s.lines; len(lines) > 0; {
		switch line := lines[0]; {
		case line == "":
			lines = lines[1:]
		case strings.HasPrefix(line, "```"):
			n := 1 + slices.Index(lines[1:], "```")
			for _, code := range lines[1:n] {
				w.line("    " + code)
			}
			w.line("")
			lines = lines[n+1:]
		case cellsOf(line) != nil:
			n := slices.IndexFunc(lines, func(l string) bool { return cellsOf(l) == nil })
			if n < 0 {
				n = len(lines)
			}
			w.table(lines[:n])
			w.line("")
			lines = lines[n:]
		default:
			lines = lines[w.paragraph(lines):]
		}
	}
}

// paragraph writes the lines up to an empty one, a table or the next entry of a list, and returns how many they are.
func (w *writer) paragraph(lines []string) int {
	n := 1
	for n < len(lines) && lines[n] != "" && lines[n][0] != '|' && !strings.HasPrefix(lines[n], "- ") {
		n++
	}
	entry, isEntry := strings.CutPrefix(strings.Join(lines[:n], " "), "- ")
	first, rest := "", ""
	if isEntry {
		first, rest = "- ", "  "
	}
	w.indented(first, rest, plain(entry))
	if !isEntry || n < len(lines) && !strings.HasPrefix(lines[n], "- ") {
		w.line("")
	}
	return n
}

// table writes the rows of a table, which begins with its head and a rule.
func (w *writer) table(lines []string) {
	if len(lines) < 2 {
		return
	}
	head, column := cellsOf(lines[0]), 0
	for _, line := range lines[2:] {
		column = max(column, min(screen.Width(plain(cellsOf(line)[0])), widest))
	}
	for _, line := range lines[2:] {
		w.row(head, cellsOf(line), column)
	}
}

// rows writes the rows of a section that are about a word.
func (w *writer) rows(s *section, word string) {
	var head []string
	titled := false
	for _, line := range s.lines {
		cells := cellsOf(line)
		switch {
		case cells == nil:
			head = nil
		case head == nil:
			head = cells
		case slices.ContainsFunc(names(cells[0]), func(name string) bool { return strings.EqualFold(name, word) }):
			if !titled {
				w.title(s.title)
			}
			titled = true
			w.row(head, cells, min(screen.Width(plain(cells[0])), widest))
		}
	}
	if titled {
		w.line("")
	}
}

// row writes a row: its name, and beside it what the other cells say.
func (w *writer) row(head, cells []string, column int) {
	name, text := plain(cells[0]), ""
	for i, cell := range cells[1:] {
		switch {
		case cell == "":
		case i == 0:
			text = plain(cell)
		case i+1 < len(head) && head[i+1] != "" && head[i+1] != "value":
			text += " (" + plain(head[i+1]) + ": " + plain(cell) + ")"
		default:
			text += " (" + plain(cell) + ")"
		}
	}
	first := "  " + screen.Pad(name, column) + "  "
	if screen.Width(name) > column {
		w.line("  " + name)
		first = strings.Repeat(" ", column+4)
	}
	w.indented(first, strings.Repeat(" ", column+4), text)
}

// title writes the title of a section.
func (w *writer) title(text string) { w.line(strings.ToUpper(text) + "\n") }

// indented writes a text in lines, with something before the first one and the others.
func (w *writer) indented(first, rest, text string) {
	for i, line := range screen.Wrap(text, w.width-len(rest)) {
		if i == 0 {
			w.line(first + line)
		} else {
			w.line(rest + line)
		}
	}
}

func (w *writer) line(text string) { w.WriteString(text + "\n") }
