package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonReader reads JSON with the place of every value. encoding/json gives offsets; they become lines and columns here.
type jsonReader struct {
	dec  *json.Decoder
	text string
	// The place of the byte at offset seen. A place is looked for from the last one on: a whole document may be on one
	// line, and counting from the beginning each time would take forever.
	seen int
	pos  Pos
}

func readJSON(text string) (*Node, *Error) {
	text = strings.TrimPrefix(text, "\ufeff")
	j := &jsonReader{dec: json.NewDecoder(strings.NewReader(text)), text: text, pos: Pos{1, 1}}
	j.dec.UseNumber()
	n, err := j.value(1)
	if err != nil {
		return nil, err
	}
	if at := j.space(int(j.dec.InputOffset())); at < len(text) {
		return nil, j.fail(at, "unexpected %s after the document", j.character(at))
	}
	return n, nil
}

// value reads the next value; depth is how deep it is nested.
func (j *jsonReader) value(depth int) (*Node, *Error) {
	token, at, err := j.next()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, j.fail(at, "nested more than %d levels deep", maxDepth)
	}
	out := &Node{Pos: j.place(at), size: 1}
	switch token := token.(type) {
	case json.Delim:
		out.Kind = List
		if token == '{' {
			out.Kind = Mapping
		}
		err = j.inside(out, depth)
	case string:
		out.Kind, out.style, out.Text = Text, styleDouble, token
	case bool:
		out.Kind, out.Scalar = Bool, token
	case json.Number:
		out.Kind, out.Scalar = Number, ParseNumber(token.String())
		if tooLarge(out.Scalar) {
			err = j.fail(at, "number %s too large", token)
		}
	}
	return out, err
}

// inside reads what a list or a mapping holds, and its end.
func (j *jsonReader) inside(out *Node, depth int) *Error {
	for j.dec.More() {
		var name string
		var key Pos
		if out.Kind == Mapping {
			token, at, err := j.next()
			if err != nil {
				return err
			}
			name, _ = token.(string) // the decoder refuses every other key
			key = j.place(at)
		}
		value, err := j.value(depth + 1)
		if err != nil {
			return err
		}
		if out.Kind == Mapping {
			out.Add(name, key, value)
		} else {
			out.Push(value)
		}
	}
	_, _, err := j.next()
	return err
}

// next returns the next token and the offset at which it begins.
func (j *jsonReader) next() (json.Token, int, *Error) {
	at := j.space(int(j.dec.InputOffset()))
	if at < len(j.text) && (j.text[at] == ',' || j.text[at] == ':') {
		at = j.space(at + 1)
	}
	token, err := j.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return token, at, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, 0, j.fail(len(j.text), "unexpected end")
	case errors.As(err, &syntax):
		return nil, 0, j.syntax(syntax)
	default:
		return nil, 0, j.fail(at, "%s", err)
	}
}

// syntax gives an error of the decoder its place and this package's words.
func (j *jsonReader) syntax(err *json.SyntaxError) *Error {
	at := j.space(int(j.dec.InputOffset()))
	// The decoder stops before the part that it cannot read. Its own offset ignores the characters between values, so a
	// value that is wrong further in is read again, alone.
	var inside *json.SyntaxError
	if errors.As(json.Unmarshal([]byte(j.text[at:]), new(json.RawMessage)), &inside) && inside.Error() == err.Error() {
		at += int(inside.Offset) - 1
	}
	return j.fail(at, "unexpected %s%s", j.character(at), expectation(err.Error()))
}

// expectation reports what the decoder expected.
func expectation(message string) string {
	for _, c := range []struct{ theirs, ours string }{
		{"after object key:value pair", " where , or } is expected"},
		{"after object key", " where : is expected"},
		{"after array element", " where , or ] is expected"},
		{"looking for beginning of object key", " where a text is expected"},
		{"in string", " in a text"},
		{"character escape", " in a text"},
	} {
		if strings.Contains(message, c.theirs) {
			return c.ours
		}
	}
	if strings.HasSuffix(message, "'") { // it does not mention the first key of a mapping
		return " where a text is expected"
	}
	return ""
}

func (j *jsonReader) fail(at int, format string, args ...any) *Error {
	pos := j.place(at)
	return &Error{Line: pos.Line, Col: pos.Col, Msg: "not readable as JSON: " + fmt.Sprintf(format, args...)}
}

// space returns the offset of the first character from an offset on that is not white space.
func (j *jsonReader) space(at int) int {
	for at < len(j.text) && strings.IndexByte(" \t\r\n", j.text[at]) >= 0 {
		at++
	}
	return at
}

// character names the character at an offset.
func (j *jsonReader) character(at int) string {
	r, _ := utf8.DecodeRuneInString(j.text[at:])
	return strconv.QuoteRune(r)
}

// place returns the line and column of an offset, which is not before the last one that was asked for.
func (j *jsonReader) place(at int) Pos {
	passed := j.text[j.seen:max(at, j.seen)]
	if end := strings.LastIndexByte(passed, '\n'); end >= 0 {
		j.pos = Pos{j.pos.Line + strings.Count(passed, "\n"), 1}
		passed = passed[end+1:]
	}
	j.pos.Col += utf8.RuneCountInString(passed)
	j.seen = max(at, j.seen)
	return j.pos
}
