package visibility

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
)

// The fields that a condition may be about.
const (
	fieldID        = "WorkflowId"
	fieldRun       = "RunId"
	fieldType      = "WorkflowType"
	fieldStatus    = "ExecutionStatus"
	fieldStart     = "StartTime"
	fieldExecution = "ExecutionTime"
	fieldClose     = "CloseTime"
	fieldQueue     = "TaskQueue"
)

var fields = []string{fieldID, fieldRun, fieldType, fieldStatus, fieldStart, fieldExecution, fieldClose, fieldQueue}

// Filter selects workflows: those of which all its conditions hold.
type Filter struct {
	// Groups: the workflows are counted by their status.
	Groups     bool
	conditions []condition
}

// condition compares a field with values. BETWEEN is two of them.
type condition struct {
	field  string
	op     string // = != < <= > >= IN, NOT IN
	texts  []string
	times  []time.Time
	status []enumspb.WorkflowExecutionStatus
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
	for len(p.words) > 0 {
		if p.word("GROUP") {
			return f, p.group(f)
		}
		if err := p.condition(f); err != nil {
			return nil, err
		}
		switch {
		case len(p.words) == 0, p.is("GROUP"):
		case p.word("AND") && len(p.words) > 0:
		default:
			return nil, unsupported(p.rest())
		}
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

// condition reads one condition.
func (p *parser) condition(f *Filter) error {
	if len(p.words) > 0 && !p.words[0].quoted {
		switch strings.ToUpper(p.words[0].text) {
		case "(", "NOT", "ORDER", "GROUP":
			return unsupported(p.rest())
		}
	}
	name := p.next()
	if name.quoted || !slices.Contains(fields, name.text) {
		return fmt.Errorf("invalid query: column name '%s' is not a valid search attribute", name.text)
	}
	op := p.next()
	switch word := strings.ToUpper(op.text); {
	case op.quoted || word == "":
		return fmt.Errorf("invalid query: the operator after '%s' is missing", name.text)
	case slices.Contains([]string{"=", "!=", "<", "<=", ">", ">="}, word):
		return p.compare(f, name.text, word)
	case word == "BETWEEN":
		if err := p.compare(f, name.text, ">="); err != nil {
			return err
		}
		if !p.word("AND") {
			return fmt.Errorf("invalid query: BETWEEN needs two values with AND between them")
		}
		return p.compare(f, name.text, "<=")
	case word == "IN":
		return p.list(f, name.text, "IN")
	case word == "NOT" && p.word("IN"):
		return p.list(f, name.text, "NOT IN")
	default:
		return unsupported(op.text)
	}
}

// compare reads the value of a comparison.
func (p *parser) compare(f *Filter, field, op string) error {
	c := condition{field: field, op: op}
	ordered := op != "=" && op != "!="
	if ordered && !isTime(field) {
		return fmt.Errorf("invalid query: operator '%s' not supported for '%s'", op, field)
	}
	if err := c.value(p.next()); err != nil {
		return err
	}
	f.conditions = append(f.conditions, c)
	return nil
}

// list reads the values in parentheses.
func (p *parser) list(f *Filter, field, op string) error {
	c := condition{field: field, op: op}
	if !p.word("(") {
		return fmt.Errorf("invalid query: IN needs values in parentheses")
	}
	for {
		if err := c.value(p.next()); err != nil {
			return err
		}
		switch {
		case p.word(","):
		case p.word(")"):
			f.conditions = append(f.conditions, c)
			return nil
		default:
			return fmt.Errorf("invalid query: the values of IN have no end")
		}
	}
}

func isTime(field string) bool {
	return field == fieldStart || field == fieldExecution || field == fieldClose
}

// value adds a value of the field's type.
func (c *condition) value(w token) error {
	number, err := strconv.ParseInt(w.text, 10, 64)
	if !w.quoted && err != nil {
		return fmt.Errorf("invalid query: '%s' is not a value for '%s': write texts in quotes", w.text, c.field)
	}
	switch {
	case isTime(c.field):
		at := time.Unix(0, number)
		if err != nil {
			if at, err = time.Parse(time.RFC3339Nano, w.text); err != nil {
				return fmt.Errorf("invalid query: '%s' is not an instant such as 2026-05-17T10:00:00Z", w.text)
			}
		}
		c.times = append(c.times, at)
	case c.field == fieldStatus:
		status := enumspb.WorkflowExecutionStatus(number)
		if err != nil {
			status, err = enumspb.WorkflowExecutionStatusFromString(w.text)
		}
		if _, known := enumspb.WorkflowExecutionStatus_name[int32(status)]; err != nil || !known || status == 0 {
			return fmt.Errorf("invalid query: invalid ExecutionStatus value '%s'", w.text)
		}
		c.status = append(c.status, status)
	default:
		c.texts = append(c.texts, w.text)
	}
	return nil
}
