package visibility

import (
	"fmt"
	"slices"
	"strings"
)

// Filter selects workflows.
type Filter struct {
	// Groups: the workflows are counted by their status.
	Groups bool
	root   *node // nil: all are selected
}

// node is a part of a query: a condition, or others that are joined.
type node struct {
	op   string // AND, OR, NOT; empty: a condition
	kids []*node
	condition
}

// condition compares a field with values. BETWEEN is two of them.
type condition struct {
	field  string
	op     string // = != < <= > >= IN, NOT IN, STARTS_WITH, NOT STARTS_WITH, IS NULL, IS NOT NULL
	values []value
}

// mostQuery bounds the length of a query, in bytes.
const mostQuery = 8 << 10

// Parse reads a query. An empty one selects all workflows. Errors say what of it is not understood.
func Parse(query string) (*Filter, error) {
	if len(query) > mostQuery {
		return nil, fmt.Errorf("invalid query: it is longer than %d bytes", mostQuery)
	}
	words, err := split(query)
	if err != nil {
		return nil, err
	}
	p := &parser{words: words}
	f := &Filter{}
	if len(p.words) > 0 && !p.is("GROUP") && !p.is("ORDER") {
		if f.root, err = p.either(0); err != nil {
			return nil, err
		}
	}
	if err := p.order(); err != nil {
		return nil, err
	}
	if p.word("GROUP") {
		return f, p.group(f)
	}
	if len(p.words) > 0 {
		return nil, unsupported(p.rest())
	}
	return f, nil
}

func unsupported(what string) error {
	return fmt.Errorf("invalid query: operator '%s' not supported", what)
}

// token is a word of a query.
type token struct {
	text   string
	quoted bool // it was a text in quotes
}

// split splits a query into words.
func split(query string) ([]token, error) {
	var out []token
	for i := 0; i < len(query); {
		switch c := query[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '\'' || c == '"' || c == '`':
			text, n := quoted(query[i:])
			if n == 0 {
				return nil, fmt.Errorf("invalid query: the quote at position %d has no end", i+1)
			}
			out = append(out, token{text, c != '`'})
			i += n
		case strings.IndexByte("(),", c) >= 0:
			out = append(out, token{text: string(c)})
			i++
		case strings.IndexByte("<>=!", c) >= 0:
			n := 1
			for i+n < len(query) && strings.IndexByte("<>=", query[i+n]) >= 0 {
				n++
			}
			out = append(out, token{text: query[i : i+n]})
			i += n
		default:
			n := strings.IndexAny(query[i:], " \t\n\r'\"`(),<>=!")
			if n < 0 {
				n = len(query) - i
			}
			out = append(out, token{text: query[i : i+n]})
			i += n
		}
	}
	return out, nil
}

// quoted reads a text in quotes; n is how many bytes it takes, 0 if it has no end. A backslash or a second quote keeps
// a quote in the text.
func quoted(s string) (text string, n int) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s), s[i] == s[0] && i+1 < len(s) && s[i+1] == s[0]:
			i++
			b.WriteByte(s[i])
		case s[i] == s[0]:
			return b.String(), i + 1
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0
}

// parser has the words that are left.
type parser struct{ words []token }

// next takes the next word; an empty one: there is none.
func (p *parser) next() token {
	if len(p.words) == 0 {
		return token{}
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// group reads by what workflows are counted: GROUP was taken.
func (p *parser) group(f *Filter) error {
	if !p.word("BY") || len(p.words) != 1 || p.words[0].text != fieldStatus {
		return fmt.Errorf("invalid query: workflows are grouped by ExecutionStatus only: GROUP BY ExecutionStatus")
	}
	f.Groups = true
	return nil
}

// is reports whether the next word is a certain one.
func (p *parser) is(want string) bool {
	return len(p.words) > 0 && !p.words[0].quoted && strings.EqualFold(p.words[0].text, want)
}

// word takes the next word if it is a certain one, and reports whether it was.
func (p *parser) word(want string) bool {
	is := p.is(want)
	if is {
		p.next()
	}
	return is
}

// rest returns the next words, for an error.
func (p *parser) rest() string {
	if len(p.words) > 1 && strings.EqualFold(p.words[1].text, "BY") {
		return strings.ToUpper(p.words[0].text + " " + p.words[1].text)
	}
	return strings.ToUpper(p.next().text)
}

// order reads an order, which is that of all lists: the newest first.
func (p *parser) order() error {
	if !p.word("ORDER") {
		return nil
	}
	if !p.word("BY") || p.next().text != fieldStart || !p.word("DESC") {
		return fmt.Errorf("invalid query: lists have one order, which is ORDER BY StartTime DESC")
	}
	return nil
}

// deepest bounds how deep parentheses may be.
const deepest = 100

// either reads what is joined by OR.
func (p *parser) either(depth int) (*node, error) {
	return p.joined("OR", func() (*node, error) { return p.all(depth) })
}

// all reads what is joined by AND.
func (p *parser) all(depth int) (*node, error) {
	return p.joined("AND", func() (*node, error) { return p.one(depth) })
}

func (p *parser) joined(op string, read func() (*node, error)) (*node, error) {
	first, err := read()
	if err != nil || !p.is(op) {
		return first, err
	}
	out := &node{op: op, kids: []*node{first}}
	for p.word(op) {
		next, err := read()
		if err != nil {
			return nil, err
		}
		out.kids = append(out.kids, next)
	}
	return out, nil
}

// one reads a condition, or what is in parentheses or behind NOT.
func (p *parser) one(depth int) (*node, error) {
	if depth > deepest {
		return nil, fmt.Errorf("invalid query: parentheses are %d deep at most", deepest)
	}
	switch {
	case p.word("NOT"):
		inner, err := p.one(depth + 1)
		return &node{op: "NOT", kids: []*node{inner}}, err
	case p.word("("):
		inner, err := p.either(depth + 1)
		if err == nil && !p.word(")") {
			err = fmt.Errorf("invalid query: a parenthesis has no end")
		}
		return inner, err
	default:
		return p.condition()
	}
}

// condition reads one condition.
func (p *parser) condition() (*node, error) {
	if len(p.words) == 0 {
		return nil, fmt.Errorf("invalid query: a condition is missing at the end")
	}
	name := p.next()
	if _, known := typeOf(name.text); name.quoted || !known {
		return nil, fmt.Errorf("invalid query: column name '%s' is not a valid search attribute", name.text)
	}
	op := p.next()
	not := !op.quoted && strings.EqualFold(op.text, "NOT") && (p.is("IN") || p.is("STARTS_WITH"))
	word := strings.ToUpper(op.text)
	if not {
		word = "NOT " + strings.ToUpper(p.next().text)
	}
	switch {
	case op.quoted || word == "":
		return nil, fmt.Errorf("invalid query: the operator after '%s' is missing", name.text)
	case slices.Contains([]string{"=", "!=", "<", "<=", ">", ">="}, word):
		return p.compare(name.text, word)
	case word == "BETWEEN":
		least, err := p.compare(name.text, ">=")
		if err != nil {
			return nil, err
		}
		if !p.word("AND") {
			return nil, fmt.Errorf("invalid query: BETWEEN needs two values with AND between them")
		}
		most, err := p.compare(name.text, "<=")
		return &node{op: "AND", kids: []*node{least, most}}, err
	case word == "IN", word == "NOT IN":
		return p.list(name.text, word)
	case word == "STARTS_WITH", word == "NOT STARTS_WITH":
		return p.compare(name.text, word)
	case word == "IS":
		word = "IS NULL"
		if p.word("NOT") {
			word = "IS NOT NULL"
		}
		if !p.word("NULL") {
			return nil, fmt.Errorf("invalid query: IS is followed by NULL, or by NOT NULL")
		}
		return &node{condition: condition{field: name.text, op: word}}, nil
	default:
		return nil, unsupported(op.text)
	}
}

// compare reads the value of a comparison.
func (p *parser) compare(field, op string) (*node, error) {
	c := condition{field: field, op: op}
	kind, _ := typeOf(field)
	ordered := op != "=" && op != "!="
	starts := strings.HasSuffix(op, "STARTS_WITH")
	if starts && !isText(kind) || ordered && !starts && (isText(kind) || kind == aBool || kind == aStatus) {
		return nil, fmt.Errorf("invalid query: operator '%s' not supported for '%s'", op, field)
	}
	v, err := readValue(field, kind, p.next())
	c.values = []value{v}
	return &node{condition: c}, err
}

// list reads the values in parentheses.
func (p *parser) list(field, op string) (*node, error) {
	c := condition{field: field, op: op}
	kind, _ := typeOf(field)
	if !p.word("(") {
		return nil, fmt.Errorf("invalid query: IN needs values in parentheses")
	}
	for {
		v, err := readValue(field, kind, p.next())
		if err != nil {
			return nil, err
		}
		c.values = append(c.values, v)
		switch {
		case p.word(","):
		case p.word(")"):
			return &node{condition: c}, nil
		default:
			return nil, fmt.Errorf("invalid query: the values of IN have no end")
		}
	}
}
