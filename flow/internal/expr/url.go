package expr

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/pawl-dev/pawl/internal/tree"
)

// escapeName is the function that makes one part of a URL of a value.
const escapeName = "u"

// escape writes a value as one part of a path, and a list as several parts with slashes between them.
func escape(args ...any) (any, error) { return joined(args[0], "/", escapeText) }

func escapeText(v any) (string, error) {
	text, err := writtenAs(v)
	switch {
	case err != nil:
		return "", err
	case text == "", text == ".", text == "..":
		return "", fmt.Errorf("%q cannot be a part of a URL: the path would be another one; "+
			"give what may be empty by query:", text)
	case len(text) > maxText/4:
		return "", errTooLong
	}
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20"), nil
}

// URL compiles the address of a request. The value of an expression must not change more of it than its own part: an
// expression at the beginning is an address, one that names the host is checked when its value is known, and all later
// ones are numbers or escaped by u.
func (c *Compiler) URL(n *tree.Node, vars Vars) *Template {
	t := c.Template(n, vars, true)
	if n == nil || n.Kind != tree.Text || t.parts == nil {
		return t
	}
	parts, open := segments(n.Text)
	if open >= 0 {
		return t // reported
	}
	before := ""
	for i, part := range parts {
		switch inHost := hostIsOpen(before); {
		case !part.expression:
			before += part.text
			continue
		case t.parts[i].placeholder != nil, i == 0:
		case inHost:
			t.parts[i].host = true
		default:
			p, bad := c.Language.Compile(part.text, vars, false)
			if bad == nil && !c.Language.escaped(p.code.Node()) {
				c.Report(c.Source.Inside(n, part.offset), "write ${{ u(…) }}, which escapes it, or give it by query:",
					"this expression could change the path or the query of the URL")
			}
		}
		before += "x"
	}
	return t
}

// hostIsOpen reports whether the host of a URL that begins with this text may go on.
func hostIsOpen(before string) bool {
	_, rest, ok := strings.Cut(before, "://")
	return ok && !strings.ContainsAny(rest, "/?#")
}

// hostOnly returns an error if a value for the host of a URL contains more than that.
func hostOnly(text string) error {
	if strings.ContainsAny(text, "/?#\\@ \t\r\n") || text == "" {
		return errors.New("it is in the place of a URL's host, and is not one: write host or host:port")
	}
	return nil
}

// escaped reports whether the value of an expression stays within one part of a URL.
func (l *Language) escaped(n ast.Node) bool {
	return l.safe(n, escapeName, func(string) bool { return true }) // a constant is part of the flow
}
