package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/nearest"
)

// A text finds runs: is:open flow:checkout tenant=acme error:"503 Service" older:1h order-42. Its terms are separated
// by spaces, and a run has to match all of them. - is:WORD selects by state: a phase, open, closed, retrying, late,
// stuck, resting or top. Of several phases
//     a run has one.
//   - KEY:VALUE chooses by one of the keys of findKeys.
//   - KEY=VALUE is a label.
//   - A word without either, or a text in quotation marks, stands in the run's name, its workflow, its labels or its
//     message, in letters of any case.

// findKey is one key of a text that finds runs.
type findKey struct {
	name string
	says string
	read func(*finder, string) error
}

// findKeys returns the keys, in the order in which they are listed for people. It is a function since is refers to
// them.
func findKeys() []findKey {
	return []findKey{
		{"is", "open, closed, a phase, retrying, late, stuck, resting, top", (*finder).is},
		{"flow", "the name of its flow or workflow", text(func(q *Query) *string { return &q.Workflow })},
		{"id", "its workflow id, whole", text(func(q *Query) *string { return &q.WorkflowID })},
		{"error", "words of its failure, or of what holds it", text(func(q *Query) *string { return &q.Error })},
		{"label", "KEY=VALUE, for a key with a colon in it", (*finder).label},
		{"input", "PATH=VALUE: a value of its input; slow", (*finder).input},
		{"older", "created before: 1h ago, or an instant", instant(func(q *Query) *Time { return &q.CreatedBefore })},
		{"newer", "created since: 2d ago, or an instant", instant(func(q *Query) *Time { return &q.CreatedFrom })},
		{"deadline", "its deadline comes within this time: 10m", (*finder).deadline},
		{"parent", "the run whose steps started it", text(func(q *Query) *string { return &q.Parent })},
	}
}

// findWords are the words after is: that are not phases.
var findWords = map[string]func(*Query){
	"retrying": func(q *Query) { q.Retrying = true },
	"late":     func(q *Query) { q.WillMiss = true },
	"stuck":    func(q *Query) { q.Stuck = true },
	"resting":  func(q *Query) { q.Resting = true },
	"top":      func(q *Query) { q.Top = true },
	"open": func(q *Query) {
		q.addPhases(slices.DeleteFunc(RunPhases(), RunPhase.Closed)...)
	},
	"closed": func(q *Query) {
		q.addPhases(slices.DeleteFunc(RunPhases(), func(p RunPhase) bool { return !p.Closed() })...)
	},
}

// FindKeys returns the keys of a search text, each with its values.
func FindKeys() [][2]string {
	var all [][2]string
	for _, k := range findKeys() {
		all = append(all, [2]string{k.name, k.says})
	}
	return all
}

// FindWords returns the words that may follow is:, in order.
func FindWords() []string {
	var all []string
	for word := range findWords {
		all = append(all, word)
	}
	for _, p := range RunPhases() {
		all = append(all, strings.ReplaceAll(string(p), "_", "-"))
	}
	slices.Sort(all)
	return all
}

// Read returns the query with the meaning of its text at an instant, and without the text. A limit of one kind may not
// be given twice: in the text, or there and beside it.
func (q Query) Read(now Time) (Query, error) {
	if q.Text == "" {
		return q, nil
	}
	f := finder{query: &q, now: now, rest: q.Text, column: 1}
	q.Text = ""
	for f.next() {
		if err := f.read(); err != nil {
			return q, &Error{
				Code: CodeInvalid, Message: fmt.Sprintf("query: column %d: %v", f.column, err), Err: err,
			}
		}
	}
	return q, nil
}

func (q *Query) addPhases(phases ...RunPhase) {
	for _, p := range phases {
		if !slices.Contains(q.Phases, p) {
			q.Phases = append(q.Phases[:len(q.Phases):len(q.Phases)], p)
		}
	}
}

// finder reads a text that finds runs.
type finder struct {
	query  *Query
	now    Time
	rest   string // the text behind the term
	column int    // where the term begins, in characters from 1
	width  int    // its length in characters

	// The term, taken apart.
	key, value string
	keyed      bool // it is key:value
	quoted     bool // it begins with a quotation mark
	open       bool // a quotation mark in it has no partner
}

// next reads a term. It returns false at the end of the text.
func (f *finder) next() bool {
	f.column += f.width
	trimmed := strings.TrimLeftFunc(f.rest, unicode.IsSpace)
	f.column += utf8.RuneCountInString(f.rest[:len(f.rest)-len(trimmed)])
	f.rest = trimmed
	if f.rest == "" {
		return false
	}
	f.key, f.keyed, f.open, f.quoted = "", false, false, f.rest[0] == '"'
	var value strings.Builder
	at, inQuotes := 0, false
	for at < len(f.rest) {
		r, size := utf8.DecodeRuneInString(f.rest[at:])
		switch {
		case r == '\\' && inQuotes && at+1 < len(f.rest) && strings.ContainsRune(`"\`, rune(f.rest[at+1])):
			at++
			value.WriteByte(f.rest[at])
			at++
			continue
		case r == '"':
			inQuotes = !inQuotes
			at++
			continue
		case !inQuotes && unicode.IsSpace(r):
			f.end(at, value.String(), false)
			return true
		case r == ':' && !inQuotes && !f.keyed && !f.quoted && !strings.Contains(value.String(), "="):
			f.key, f.keyed = value.String(), true
			value.Reset()
			at++
			continue
		}
		value.WriteString(f.rest[at : at+size])
		at += size
	}
	f.end(at, value.String(), inQuotes)
	return true
}

// end ends the term at a byte of the rest.
func (f *finder) end(at int, value string, open bool) {
	f.width = utf8.RuneCountInString(f.rest[:at])
	f.rest, f.value, f.open = f.rest[at:], value, open
}

// read adds the term to the query.
func (f *finder) read() error {
	switch {
	case f.open:
		return fmt.Errorf("a quotation mark has no partner")
	case f.keyed:
		return f.readKey()
	case !f.quoted && strings.Contains(f.value, "="):
		return f.label(f.value)
	case f.value == "":
		return fmt.Errorf("the quotation marks hold nothing")
	}
	f.query.Words = append(f.query.Words[:len(f.query.Words):len(f.query.Words)], f.value)
	return nil
}

func (f *finder) readKey() error {
	var known []string
	for _, k := range findKeys() {
		if k.name != f.key {
			known = append(known, k.name)
			continue
		}
		if f.value == "" {
			return fmt.Errorf("%s: is followed by nothing; it takes %s", f.key, k.says)
		}
		return k.read(f, f.value)
	}
	hint := nearest.Word(f.key, known)
	if hint != "" {
		return fmt.Errorf("there is no key %q; did you mean %s:? For a text with a colon write %q", f.key, hint,
			f.key+":"+f.value)
	}
	return fmt.Errorf("there is no key %q, only %s; for a text with a colon write %q", f.key,
		strings.Join(known, ", "), f.key+":"+f.value)
}

func (f *finder) is(word string) error {
	if add, ok := findWords[word]; ok {
		add(f.query)
		return nil
	}
	phase := RunPhase(strings.ReplaceAll(word, "-", "_"))
	if slices.Contains(RunPhases(), phase) {
		f.query.addPhases(phase)
		return nil
	}
	if near := nearest.Word(word, FindWords()); near != "" {
		return fmt.Errorf("is:%s means nothing; did you mean is:%s?", word, near)
	}
	return fmt.Errorf("is:%s means nothing; there are %s", word, strings.Join(FindWords(), ", "))
}

func (f *finder) label(text string) error { return f.pair(text, "a label", &f.query.Labels) }

func (f *finder) input(text string) error {
	return f.pair(text, "a value of the input", &f.query.Input)
}

// pair adds KEY=VALUE to the labels or the inputs of the query.
func (f *finder) pair(text, what string, to *map[string]string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" || value == "" {
		return fmt.Errorf("%q: write %s as key=value", text, what)
	}
	all := map[string]string{key: value}
	for k, v := range *to {
		if k == key && v != value {
			return fmt.Errorf("no run has two values of %s: %q and %q", key, v, value)
		}
		all[k] = v
	}
	*to = all
	return nil
}

func (f *finder) deadline(value string) error {
	d, err := decode.WithUnit(value)
	if err != nil {
		return err
	}
	return once(f.key, &f.query.DeadlineWithin, d)
}

// text returns what reads a value into a field of the query.
func text(field func(*Query) *string) func(*finder, string) error {
	return func(f *finder, value string) error { return once(f.key, field(f.query), value) }
}

// instant returns what reads an age or an instant into a field of the query.
func instant(field func(*Query) *Time) func(*finder, string) error {
	return func(f *finder, value string) error {
		if age, err := decode.WithUnit(value); err == nil {
			return once(f.key, field(f.query), At(f.now.Std().Add(-age.Std())))
		}
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
			if at, err := time.Parse(layout, value); err == nil {
				return once(f.key, field(f.query), At(at))
			}
		}
		return fmt.Errorf("%s:%s is neither an age such as 2d, nor a day such as 2026-01-02, nor an instant such as "+
			"2026-01-02T15:04:05Z", f.key, value)
	}
}

// once sets a field that has no value yet.
func once[T comparable](key string, field *T, value T) error {
	var none T
	if *field != none && *field != value {
		return fmt.Errorf("%s: is given twice", key)
	}
	*field = value
	return nil
}

// HasWords reports whether a run has all words that the query looks for.
func (q *Query) HasWords(r *RunSummary) bool {
	if q.Error != "" && !holds(r.Message, q.Error) && !holds(r.Problem, q.Error) {
		return false
	}
	for _, word := range q.Words {
		found := strings.HasPrefix(r.Run, strings.ToLower(word)) || holds(r.WorkflowID, word) ||
			holds(r.Workflow, word) || holds(r.Message, word) || holds(r.Problem, word)
		for key, value := range r.Labels {
			found = found || holds(key+"="+value, word)
		}
		if !found {
			return false
		}
	}
	return true
}

// holds reports whether a text has a word in it, in letters of any case.
func holds(text, word string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(word))
}
