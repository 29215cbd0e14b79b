package tree

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// YAML writes a tree as block YAML, with short lists and mappings on one line.
func YAML(n *Node) []byte {
	w := yamlWriter{}
	w.fields(n, 0)
	return w.buf
}

type yamlWriter struct{ buf []byte }

// shortLine is the length up to which a list or mapping is written on one line.
const shortLine = 90

func (w *yamlWriter) indent(depth int) {
	for range depth {
		w.buf = append(w.buf, ' ', ' ')
	}
}

func (w *yamlWriter) fields(n *Node, depth int) {
	for i, f := range n.Fields {
		if i > 0 || depth == 0 || !w.afterDash() {
			w.indent(depth)
		}
		w.buf = append(w.buf, scalarText(f.Name)...)
		w.buf = append(w.buf, ':')
		w.under(f.Value, depth)
	}
}

// afterDash reports whether the line has only the dash of a list's item so far.
func (w *yamlWriter) afterDash() bool {
	return strings.HasSuffix(string(w.buf[max(0, len(w.buf)-2):]), "- ")
}

// under writes a value behind its key or below it.
func (w *yamlWriter) under(n *Node, depth int) {
	if n.Kind == Text && blockText(n.Text) {
		w.block(n.Text, depth+1)
		return
	}
	if line, ok := oneLine(n, shortLine-2*depth); ok {
		if line != "" {
			w.buf = append(w.buf, ' ')
		}
		w.buf = append(w.buf, line...)
		w.buf = append(w.buf, '\n')
		return
	}
	w.buf = append(w.buf, '\n')
	if n.Kind == Mapping {
		w.fields(n, depth+1)
		return
	}
	for _, item := range n.Items {
		w.indent(depth + 1)
		w.buf = append(w.buf, '-', ' ')
		w.item(item, depth+2)
	}
}

func (w *yamlWriter) item(n *Node, depth int) {
	if line, ok := oneLine(n, shortLine-2*depth); ok && (n.Kind != Mapping || len(n.Fields) < 3) {
		w.buf = append(append(w.buf, line...), '\n')
		return
	}
	if n.Kind == Mapping {
		w.fields(n, depth)
		return
	}
	for i, item := range n.Items {
		if i > 0 {
			w.indent(depth)
		}
		w.buf = append(w.buf, '-', ' ')
		w.item(item, depth+1)
	}
}

// block writes a text of several lines as they are.
func (w *yamlWriter) block(text string, depth int) {
	w.buf = append(w.buf, " |"...)
	if !strings.HasSuffix(text, "\n") {
		w.buf = append(w.buf, '-')
	}
	w.buf = append(w.buf, '\n')
	for line := range strings.Lines(text) {
		if line != "\n" {
			w.indent(depth)
		}
		w.buf = append(w.buf, strings.TrimSuffix(line, "\n")...)
		w.buf = append(w.buf, '\n')
	}
}

// blockText reports whether a text survives as a literal block.
func blockText(text string) bool {
	if !strings.Contains(strings.TrimSuffix(text, "\n"), "\n") || !utf8.ValidString(text) {
		return false
	}
	if strings.HasSuffix(text, "\n\n") || strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\n") {
		return false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) != "" && strings.TrimRight(line, " \t") == line || line == "" {
			continue
		}
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff
	})
}

// oneLine writes a value on one line, if it is short enough; a scalar always is.
func oneLine(n *Node, room int) (string, bool) {
	switch n.Kind {
	case Text:
		return scalarText(n.Text), true
	case List:
		return inBrackets("[", "]", len(n.Items), room,
			func(i int) (string, bool) { return flowItem(n.Items[i], room) })
	case Mapping:
		return inBrackets("{", "}", len(n.Fields), room, func(i int) (string, bool) {
			text, ok := flowItem(n.Fields[i].Value, room)
			return scalarText(n.Fields[i].Name) + ": " + text, ok
		})
	case Null:
		return "null", true
	default:
		text, _ := AppendJSON(nil, n.Scalar, 0) // a number or a boolean can always be written
		return string(text), true
	}
}

func flowItem(n *Node, room int) (string, bool) {
	if n.Kind == Text {
		return scalarText(n.Text), true
	}
	return oneLine(n, room)
}

func inBrackets(open, end string, n, room int, item func(int) (string, bool)) (string, bool) {
	var b strings.Builder
	b.WriteString(open)
	for i := range n {
		text, ok := item(i)
		if !ok {
			return "", false
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text)
		if b.Len() > room {
			return "", false
		}
	}
	b.WriteString(end)
	return b.String(), true
}

// span is a duration in a form that needs no quotes.
var span = regexp.MustCompile(`^([0-9]+(ms|[smhd]))+$`)

// unquoted reports whether a text needs no quotes anywhere, and reads as nothing but a text.
func unquoted(text string) bool {
	if text == "" || strings.Trim(text, ".0123456789_eE+-") == "" || strings.HasPrefix(text,
		"...") || text[len(text)-1] == ' ' {
		return false
	}
	if first := text[0]; '0' <= first && first <= '9' {
		return span.MatchString(text)
	} else if first == '-' || first == ' ' {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c|0x20 < 'a' || c|0x20 > 'z' {
			if strings.IndexByte("0123456789_./ -", c) < 0 {
				return false
			}
		}
	}
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan":
		return false
	}
	return true
}

func scalarText(text string) string {
	if unquoted(text) {
		return text
	}
	if !strings.ContainsAny(text, "'\n\t\\") && utf8.ValidString(text) && !strings.ContainsFunc(text,
		func(r rune) bool {
			return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff
		}) && strings.Contains(text, `"`) {
		return "'" + text + "'"
	}
	return string(AppendText(nil, text))
}
