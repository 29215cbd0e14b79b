package expr

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/tree"
)

// segment is a part of a text: literal characters, or an expression.
type segment struct {
	text       string
	expression bool
	offset     int // offset of an expression's first character in the whole text
}

const opening = "${{"

// segments cuts a text at its expressions. $${{ is an escape for ${{ itself. open is the position of an expression that
// does not end, or -1.
func segments(text string) (parts []segment, open int) {
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, segment{text: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); {
		next := strings.Index(text[i:], opening)
		if next < 0 {
			literal.WriteString(text[i:])
			break
		}
		next += i
		if next > i && text[next-1] == '$' {
			literal.WriteString(text[i : next-1])
			literal.WriteString(opening)
			i = next + len(opening)
			continue
		}
		end := closing(text, next+len(opening))
		if end < 0 {
			return nil, next
		}
		literal.WriteString(text[i:next])
		flush()
		parts = append(parts, trimmed(text, next+len(opening), end))
		i = end + 2
	}
	flush()
	return parts, -1
}

func trimmed(text string, from, to int) segment {
	inner := text[from:to]
	left := strings.TrimLeft(inner, " \t\r\n")
	return segment{text: strings.TrimRight(left, " \t\r\n"), expression: true, offset: from + len(inner) - len(left)}
}

// closing finds the }} that ends an expression: not one in quotes, nor the ends of maps in maps.
func closing(text string, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c != '`' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if strings.HasPrefix(text[i:], "}}") {
				return i
			}
		}
	}
	return -1
}

// HasExpression reports whether a text contains an expression.
func HasExpression(text string) bool { return strings.Contains(text, opening) }

// IsExpression reports whether a text is one expression and nothing else.
func IsExpression(n *tree.Node) bool {
	_, whole := wholeExpression(n)
	return whole
}

// wholeExpression returns the expression that a text consists of.
func wholeExpression(n *tree.Node) (segment, bool) {
	if n == nil || n.Kind != tree.Text || !HasExpression(n.Text) {
		return segment{}, false
	}
	parts, open := segments(strings.TrimRight(n.Text, "\n"))
	if open >= 0 || len(parts) != 1 || !parts[0].expression {
		return segment{}, false
	}
	return parts[0], true
}
