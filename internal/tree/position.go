package tree

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pos is a place in a document: line and column in characters, both from 1. The zero Pos means no place,
// as in a document built in code.
type Pos struct{ Line, Col int }

// Source is a document's text, for excerpts and for finding places inside strings.
type Source struct {
	Name  string
	lines []string // the document's, then those of further files
	more  []further
}

// further is a file whose text was added to a source.
type further struct {
	name  string
	first int // the line of the source that is its first one
}

// NewSource returns the source of a document.
func NewSource(name, text string) *Source {
	return &Source{Name: name, lines: strings.Split(text, "\n")}
}

// Add adds the text of a further file, which belongs to the document. It returns how many lines are before it: the
// places in it are counted with them, so that they are distinguished from those of the document.
func (s *Source) Add(name, text string) (before int) {
	before = len(s.lines)
	s.more = append(s.more, further{name, before + 1})
	s.lines = append(s.lines, strings.Split(text, "\n")...)
	return before
}

// Locate returns the file of a place, and the place in that file.
func (s *Source) Locate(p Pos) (file string, at Pos) {
	file, at = s.Name, p
	for _, f := range s.more {
		if p.Line >= f.first {
			file, at = f.name, Pos{p.Line - f.first + 1, p.Col}
		}
	}
	return file, at
}

// Line returns a line without its end, or "" if there is none.
func (s *Source) Line(n int) string {
	if s == nil || n < 1 || n > len(s.lines) {
		return ""
	}
	return strings.TrimSuffix(s.lines[n-1], "\r")
}

// Mark sets what an error shows of the document: its name and the line.
func (s *Source) Mark(e *Error) {
	if s != nil {
		file, at := s.Locate(Pos{e.Line, e.Col})
		e.excerpt = s.Line(e.Line)
		e.File, e.Line = file, at.Line
	}
}

// Text returns the whole document, without further files.
func (s *Source) Text() string {
	lines := s.lines
	if len(s.more) > 0 {
		lines = lines[:s.more[0].first-1]
	}
	return strings.Join(lines, "\n")
}

// Place writes a place as file:line:col.
func (s *Source) Place(p Pos) string {
	if s == nil || p.Line == 0 {
		return ""
	}
	file, at := s.Locate(p)
	return fmt.Sprintf("%s:%d:%d", file, at.Line, at.Col)
}

// CutPlace finds the file and the place in a text that begins with a place that [Source.Place] wrote.
func CutPlace(text string) (file string, p Pos, ok bool) {
	text, _, _ = strings.Cut(text, ", ")
	parts := strings.Split(text, ":")
	if len(parts) < 3 {
		return "", Pos{}, false
	}
	last := len(parts) - 1
	line, err := strconv.Atoi(parts[last-1])
	col, err2 := strconv.Atoi(parts[last])
	if err != nil || err2 != nil || line < 1 {
		return "", Pos{}, false
	}
	return strings.Join(parts[:last-1], ":"), Pos{line, col}, true
}

// Inside returns the place of the byte at offset within a text at n. Where that cannot be found (a folded block, a
// plain text over several lines), it returns the place where the text begins.
func (s *Source) Inside(n *Node, offset int) Pos {
	if s == nil || n.Pos.Line == 0 {
		return n.Pos
	}
	switch n.style {
	case stylePlain:
		if strings.Contains(n.Text, "\n") || !strings.HasPrefix(after(s.Line(n.Pos.Line), n.Pos.Col), n.Text) {
			return n.Pos
		}
		return Pos{n.Pos.Line, n.Pos.Col + utf8.RuneCountInString(n.Text[:offset])}
	case styleSingle, styleDouble:
		return s.insideQuotes(n, offset)
	case styleLiteral:
		return s.insideBlock(n, offset)
	default:
		return n.Pos
	}
}

// insideQuotes walks over the text as written, of which an escape is several characters.
func (s *Source) insideQuotes(n *Node, offset int) Pos {
	written := after(s.Line(n.Pos.Line), n.Pos.Col+1)
	col, value := n.Pos.Col+1, 0
	for value < offset {
		if written == "" {
			return n.Pos
		}
		width, yields := quotedUnit(written, n.style)
		col += utf8.RuneCountInString(written[:width])
		written = written[width:]
		value += yields
	}
	return Pos{n.Pos.Line, col}
}

// quotedUnit returns how many bytes the first character of a quoted text takes up as written, and how many it yields.
func quotedUnit(written string, style textStyle) (width, yields int) {
	r, size := utf8.DecodeRuneInString(written)
	switch {
	case style == styleSingle && strings.HasPrefix(written, "''"):
		return 2, 1
	case style == styleDouble && r == '\\' && len(written) > 1:
		width := map[byte]int{'x': 4, 'u': 6, 'U': 10}[written[1]]
		if width == 0 {
			return 2, 1
		}
		width = min(width, len(written))
		var code rune
		_, _ = fmt.Sscanf(written[2:width], "%x", &code) // unreadable digits were refused when the text was parsed
		return width, utf8.RuneLen(max(code, 0))
	default:
		return size, size
	}
}

// insideBlock finds a place in a literal block, whose lines are below its | with a common indentation.
func (s *Source) insideBlock(n *Node, offset int) Pos {
	before := n.Text[:offset]
	row := strings.Count(before, "\n")
	line := n.Pos.Line + 1 + row
	start := strings.LastIndexByte(before, '\n') + 1
	content, _, _ := strings.Cut(n.Text[start:], "\n")
	written := s.Line(line)
	if !strings.HasSuffix(written, content) {
		return n.Pos
	}
	indent := len(written) - len(content)
	return Pos{line, indent + utf8.RuneCountInString(before[start:]) + 1}
}

// after returns the line from a column on.
func after(line string, col int) string {
	for ; col > 1 && line != ""; col-- {
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
	}
	return line
}
