// Package fields tests that a dialect drops no field silently: each field that it knows changes the translated
// document, or is noted, or is refused.
package fields

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
)

// document is the text of some files by name, as plain data.
type document map[string]any

// Object is an object in a document, with a second value for every field that it may have.
type Object struct {
	File   string
	Path   []any // field names and positions in lists
	Fields map[string]any
}

type (
	// Noted is a value that is noted.
	Noted struct{ Value any }
	// Refused is a value that is refused.
	Refused struct{ Value any }
)

// Convert translates a document of the dialect.
type Convert func(files map[string][]byte) (*dialect.Conversion, error)

// converter gives all flows of a conversion as text.
type converter func(files map[string][]byte) (flows string, notes []dialect.Note, err error)

const unknown = "zzzzzzzz"

var known = regexp.MustCompile(`has no key "` + unknown + `"; known are ([^\n]*)`)

// Check sets every field of every object to its value. The test learns the fields from the dialect itself, so a new
// field has to be named here as well. files is a JSON object of the other files.
func Check(t *testing.T, files string, of Convert, objects []Object) {
	t.Helper()
	base := func() document { return decode(t, files) }
	convert := func(files map[string][]byte) (string, []dialect.Note, error) { return written(t, of, files) }
	plain, plainNotes, err := convert(encode(t, base()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range objects {
		names := p.known(t, base(), convert)
		for _, name := range names {
			value, listed := p.Fields[name]
			if !listed {
				t.Errorf("%s %v: there is no value for the field %q", p.File, p.Path, name)
				continue
			}
			how, value := expectation(value)
			doc := base()
			p.set(t, doc, name, value)
			flows, notes, err := convert(encode(t, doc))
			is := map[string]bool{
				"refused": err != nil, "noted": noted(notes, plainNotes, name),
				"changes the flows": err == nil && flows != plain,
			}
			if !is[how] {
				t.Errorf("%s %v: the field %q with %v must be: %s; it is %v (%v)", p.File, p.Path, name, value,
					how, is, err)
			}
		}
		for name := range p.Fields {
			if !slices.Contains(names, name) {
				t.Errorf("%s %v: there is no field %q; there are %v", p.File, p.Path, name, names)
			}
		}
	}
}

func decode(t *testing.T, files string) document {
	t.Helper()
	var doc document
	if err := json.Unmarshal([]byte(files), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// written returns all flows of a conversion as text.
func written(t *testing.T, convert Convert, files map[string][]byte) (string, []dialect.Note, error) {
	t.Helper()
	c, err := convert(files)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, doc := range append([]*flow.Document{c.Flow}, c.Children...) {
		text, err := flow.Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String(), c.Notes, nil
}

func expectation(value any) (string, any) {
	switch value := value.(type) {
	case Noted:
		return "noted", value.Value
	case Refused:
		return "refused", value.Value
	default:
		return "changes the flows", value
	}
}

func noted(notes, before []dialect.Note, name string) bool {
	said := map[string]int{}
	for _, n := range before {
		said[n.Msg]++
	}
	for _, n := range notes {
		if said[n.Msg]--; said[n.Msg] < 0 && strings.Contains(n.Msg, name) {
			return true
		}
	}
	return false
}

// known finds the fields of a place from the dialect's error for one that it does not know.
func (p Object) known(t *testing.T, doc document, convert converter) []string {
	t.Helper()
	p.set(t, doc, unknown, 1)
	_, _, err := convert(encode(t, doc))
	if err == nil {
		t.Fatalf("%s %v: an unknown field is not refused", p.File, p.Path)
	}
	found := known.FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatalf("%s %v: %v", p.File, p.Path, err)
	}
	return strings.Split(found[1], ", ")
}

func (p Object) set(t *testing.T, doc document, name string, value any) {
	t.Helper()
	at := doc[p.File]
	for _, step := range p.Path {
		switch step := step.(type) {
		case string:
			at = at.(map[string]any)[step] //nolint:forcetypeassert // a wrong path is a fault of the test
		case int:
			at = at.([]any)[step] //nolint:forcetypeassert // as above
		}
	}
	object, ok := at.(map[string]any)
	if !ok {
		t.Fatalf("%s %v is not an object", p.File, p.Path)
	}
	object[name] = value
	maps.DeleteFunc(object, func(_ string, v any) bool { return v == nil })
}

func encode(t *testing.T, doc document) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, v := range doc {
		text, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out[name] = text
	}
	return out
}
