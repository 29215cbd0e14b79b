package tree

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonError is where and why a text is not JSON.
type jsonError struct {
	at  Pos
	msg string
}

// jsonReader reads JSON with the place of every value, which encoding/json does not give.
type jsonReader struct {
	text  string
	at    int
	line  int
	start int // of the line
	depth int
	// The last place that was asked for, and its column: a whole document may stand in one line.
	seen, col int
}

func readJSON(text string) (n *Node, err *jsonError) {
	j := &jsonReader{text: text, line: 1}
	if strings.HasPrefix(text, "\ufeff") {
		j.at, j.start = 3, 3
	}
	defer func() {
		if p := recover(); p != nil {
			failure, ok := p.(*jsonError)
			if !ok {
				panic(p)
			}
			n, err = nil, failure
		}
	}()
	n = j.value()
	j.space()
	if j.at < len(j.text) {
		j.fail("unexpected %s after the document", j.next())
	}
	return n, nil
}

func (j *jsonReader) fail(format string, args ...any) {
	panic(&jsonError{j.pos(), "not readable as JSON: " + fmt.Sprintf(format, args...)})
}

func (j *jsonReader) pos() Pos {
	if j.seen < j.start || j.seen > j.at {
		j.seen, j.col = j.start, 0
	}
	j.col += utf8.RuneCountInString(j.text[j.seen:j.at])
	j.seen = j.at
	return Pos{j.line, j.col + 1}
}

// next names what stands here.
func (j *jsonReader) next() string {
	if j.at >= len(j.text) {
		return "end"
	}
	r, _ := utf8.DecodeRuneInString(j.text[j.at:])
	return strconv.QuoteRune(r)
}

func (j *jsonReader) space() {
	for j.at < len(j.text) {
		switch j.text[j.at] {
		case '\n':
			j.line++
			j.start = j.at + 1
		case ' ', '\t', '\r':
		default:
			return
		}
		j.at++
	}
}

func (j *jsonReader) take(c byte) bool {
	if j.at < len(j.text) && j.text[j.at] == c {
		j.at++
		return true
	}
	return false
}

func (j *jsonReader) value() *Node {
	j.space()
	if j.depth++; j.depth > maxDepth {
		j.fail("nested more than %d levels deep", maxDepth)
	}
	defer func() { j.depth-- }()
	out := &Node{Pos: j.pos(), size: 1}
	rest := j.text[j.at:]
	switch {
	case j.take('{'):
		out.Kind = Mapping
		j.list('}', func() {
			key := j.pos()
			name := j.string()
			j.space()
			if !j.take(':') {
				j.fail("unexpected %s where : is expected", j.next())
			}
			out.Add(name, key, j.value())
		})
	case j.take('['):
		out.Kind = List
		j.list(']', func() { out.Push(j.value()) })
	case strings.HasPrefix(rest, `"`):
		out.Kind, out.style, out.Text = Text, styleDouble, j.string()
	case strings.HasPrefix(rest, "true"):
		out.Kind, out.Scalar = Bool, true
		j.at += len("true")
	case strings.HasPrefix(rest, "false"):
		out.Kind, out.Scalar = Bool, false
		j.at += len("false")
	case strings.HasPrefix(rest, "null"):
		j.at += len("null")
	default:
		out.Kind, out.Scalar = Number, j.number()
	}
	return out
}

// list reads what stands between brackets, item by item.
func (j *jsonReader) list(end byte, item func()) {
	j.space()
	if j.take(end) {
		return
	}
	for {
		j.space()
		item()
		j.space()
		if j.take(end) {
			return
		}
		if !j.take(',') {
			j.fail("unexpected %s where , or %c is expected", j.next(), end)
		}
	}
}

func (j *jsonReader) string() string {
	begin := j.at
	if !j.take('"') {
		j.fail("unexpected %s where a text is expected", j.next())
	}
	for j.at < len(j.text) && j.text[j.at] != '"' && j.text[j.at] >= ' ' {
		if j.text[j.at] == '\\' {
			j.at++
		}
		j.at++
	}
	if j.at >= len(j.text) || j.text[j.at] != '"' {
		j.at = min(j.at, len(j.text))
		j.fail("unexpected %s in a text", j.next())
	}
	j.at++
	var text string
	if err := json.Unmarshal([]byte(j.text[begin:j.at]), &text); err != nil {
		j.at = begin
		j.fail("a text with a broken escape")
	}
	return text
}

func (j *jsonReader) number() any {
	begin := j.at
	for j.at < len(j.text) && strings.IndexByte("+-0123456789.eE", j.text[j.at]) >= 0 {
		j.at++
	}
	written := j.text[begin:j.at]
	if written == "" || !json.Valid([]byte(written)) {
		j.at = begin
		j.fail("unexpected %s", j.next())
	}
	return ParseNumber(written)
}

// parseNumber reads a JSON number: an int or uint64 where it is whole and fits, else a float64.
func ParseNumber(written string) any {
	if i, err := strconv.ParseInt(written, 10, 64); err == nil {
		return int(i)
	}
	if u, err := strconv.ParseUint(written, 10, 64); err == nil {
		return u
	}
	f, _ := strconv.ParseFloat(written, 64)
	return f
}
