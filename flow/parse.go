package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/policy"
)

// Parse reads a flow from YAML or JSON and checks it whole. name is what errors call it; forms are the words of other
// systems that it understands. Every error is an [Errors] value, sorted by place, with the first of them if there are very
// many.
func Parse(name string, src []byte, forms ...Form) (*Document, error) {
	text := string(src)
	p := &parsing{reports: &reports{src: newSource(name, text)}, forms: forms, noted: map[string]bool{}}
	root := read(p.reports, text)
	if root == nil {
		return nil, p.err()
	}
	p.duplicates(root)
	doc := p.document(root)
	if doc == nil {
		return nil, p.err()
	}
	doc.whens, doc.Notes = p.whens, p.notes
	slices.SortStableFunc(doc.Notes, func(a, b Note) int { return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Col-b.Pos.Col) })
	doc.built = build(doc, p.reports)
	if err := p.err(); err != nil {
		return nil, err
	}
	return doc, nil
}

// parsing decodes the tree of a document into its model.
type parsing struct {
	*reports
	doc   *Document
	whens map[*policy.Retry]*node // where retry conditions stand

	forms    []Form
	defaults *formed // what the steps inherit in the words of a form
	services map[string]service
	notes    []Note
	noted    map[string]bool
}

// service is a service as its steps inherit it.
type service struct {
	policy policy.Policy
	formed *formed
}

// duplicates reports every key that stands twice in one mapping.
func (p *parsing) duplicates(n *node) {
	for _, item := range n.items {
		p.duplicates(item)
	}
	if len(n.fields) == 0 {
		return
	}
	seen := make(map[string]Pos, len(n.fields))
	for _, f := range n.fields {
		if first, twice := seen[f.name]; twice && first != f.pos {
			p.fail(f.pos, "", "%q is given twice; the first one is on line %d", f.name, first.Line)
		} else {
			seen[f.name] = f.pos
		}
		p.duplicates(f.value)
	}
}

// object checks that n is a mapping of known keys only. What is unknown is reported and otherwise ignored.
func (p *parsing) object(n *node, what string, known []string) bool {
	if n == nil || n.kind == nodeNull {
		return false
	}
	if n.kind != nodeObject {
		p.fail(n.pos, "", "%s is a mapping with keys such as %s, not %s", what, orList(known[:min(len(known), 4)]), n.kind)
		return false
	}
	for _, f := range n.fields {
		if contains(known, f.name) {
			continue
		}
		if p.full() {
			break
		}
		hint := nearest.Hint(f.name, known)
		if hint == "" {
			hint = "known are " + strings.Join(known, ", ")
		}
		p.fail(f.pos, hint, "%s has no key %q", what, f.name)
	}
	return true
}

// lacks reports that a mapping has not got a key it needs. Where it has one that nobody knows, that one is probably meant,
// and was reported already.
func (p *parsing) lacks(n *node, known []string, hint, format string, args ...any) {
	for _, f := range n.fields {
		if !contains(known, f.name) {
			return
		}
	}
	p.fail(n.pos, hint, format, args...)
}

func (p *parsing) text(n *node, what string) string {
	if n == nil || n.kind == nodeNull {
		return ""
	}
	if n.kind != nodeText {
		hint := ""
		if n.kind == nodeBool || n.kind == nodeNumber {
			hint = "put it into quotes"
		}
		p.fail(n.pos, hint, "%s is a text, not %s", what, n.kind)
		return ""
	}
	return n.text
}

// texts reads a list of texts; one text alone is a list of one.
func (p *parsing) texts(n *node, what string) ([]string, []Pos) {
	if n == nil || n.kind == nodeNull {
		return nil, nil
	}
	if n.kind == nodeText {
		return []string{n.text}, []Pos{n.pos}
	}
	if n.kind != nodeList {
		p.fail(n.pos, "", "%s is a list of texts, not %s", what, n.kind)
		return nil, nil
	}
	texts, places := make([]string, 0, len(n.items)), make([]Pos, 0, len(n.items))
	for _, item := range n.items {
		if text := p.text(item, "an item of "+what); text != "" {
			texts, places = append(texts, text), append(places, item.pos)
		} else if item.kind == nodeNull || item.kind == nodeText {
			p.fail(item.pos, "", "an item of %s is empty", what)
		}
	}
	return texts, places
}

// whole reads a whole number; ok is false where there is none.
func (p *parsing) whole(n *node, what string, low, high int) (value int, ok bool) {
	if n == nil || n.kind == nodeNull {
		return 0, false
	}
	value, ok = n.scalar.(int)
	if n.kind != nodeNumber || !ok {
		p.fail(n.pos, "", "%s is a whole number, not %s", what, describe(n))
		return 0, false
	}
	if value < low || value > high {
		p.fail(n.pos, "", "%s is %d; it must be from %d to %d", what, value, low, high)
		return 0, false
	}
	return value, true
}

func (p *parsing) truth(n *node, what string) bool {
	if n == nil || n.kind == nodeNull {
		return false
	}
	value, ok := n.scalar.(bool)
	if !ok {
		p.fail(n.pos, "", "%s is true or false, not %s", what, describe(n))
	}
	return value
}

// describe names a value in an error.
func describe(n *node) string {
	switch n.kind {
	case nodeText:
		return fmt.Sprintf("the text %q", shorten(n.text))
	case nodeNumber, nodeBool:
		return fmt.Sprint(n.scalar)
	default:
		return n.kind.String()
	}
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return text
}

func valueOf(n *node) Value { return Value{n} }

// document decodes the top level. Nil is returned where nothing further down makes sense.
func (p *parsing) document(n *node) *Document {
	if n.kind != nodeObject {
		p.fail(n.pos, "a flow begins with pawl: 1", "a flow is a mapping, not %s", n.kind)
		return nil
	}
	if !p.version(n) {
		return nil
	}
	p.object(n, "a flow", p.withForms(documentKeys))
	doc := &Document{File: p.src.name, pos: n.pos, src: p.src}
	p.doc = doc
	doc.Name = p.text(n.get("name"), "name")
	if name := n.get("name"); name == nil || name.kind == nodeNull || name.kind == nodeText && name.text == "" {
		p.lacks(n, p.withForms(documentKeys), "give the flow a name: name: order", "the flow has no name")
	} else {
		p.name(name, "a flow's name")
	}
	doc.Description = p.text(n.get("description"), "description")
	doc.Input = valueOf(n.get("input"))
	doc.Limits = p.runLimits(n.get("timeout"))
	doc.Retry = p.retry(n.get("retry"))
	doc.Cron = p.cron(n.get("cron"))
	if d := p.duration(n.get("startDelay"), "startDelay"); d != nil {
		doc.StartDelay = *d
	}
	p.formOfRun(n)
	if d := n.get("defaults"); p.object(d, "defaults", p.withForms(settingsKeys)) {
		doc.Defaults = p.settings(d)
		p.defaults = p.shared(d, &doc.Defaults, "the defaults", nil, policy.Policy{})
	}
	doc.Services = p.readServices(n.get("services"))
	doc.Steps = p.steps(n)
	doc.Hooks = p.hooks(n.get("hooks"))
	doc.Output = valueOf(n.get("output"))
	return doc
}

// version checks `pawl: 1` before anything else: another version may mean anything by its keys.
func (p *parsing) version(n *node) bool {
	v := n.get("pawl")
	if v == nil {
		p.fail(n.pos, "begin it with pawl: 1", "the flow does not say which version of the format it is written in")
		return len(n.fields) > 0
	}
	version, ok := v.scalar.(int)
	switch {
	case !ok || version < 1:
		p.fail(v.pos, "write pawl: 1", "the version of the format is a whole number, not %s", describe(v))
		return true
	case version > Version:
		p.fail(v.pos, "a newer Pawl reads it", "the flow is written in version %d of the format; this Pawl knows version %d", version, Version)
		return false
	}
	return true
}

// maxName is how many characters a name may have.
const maxName = 100

// nameProblem says what is wrong with a name, "" if nothing is.
func nameProblem(name string) string {
	if name == "" {
		return "is empty"
	}
	if len(name) > maxName {
		return fmt.Sprintf("has %d characters, the limit is %d", len(name), maxName)
	}
	for i, c := range name {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
		if !letter && (i == 0 || c != '-' && c != '.') {
			return fmt.Sprintf("holds %q; letters, digits, - _ and . are allowed, a letter, digit or _ first", c)
		}
	}
	return ""
}

func (p *parsing) name(n *node, what string) {
	if problem := nameProblem(n.text); n.kind == nodeText && n.text != "" && problem != "" {
		p.fail(p.src.inside(n, 0), "", "%s, %q, %s", what, shorten(n.text), problem)
	}
}

func (p *parsing) readServices(n *node) []*Service {
	if n == nil || n.kind == nodeNull {
		return nil
	}
	if n.kind != nodeObject {
		p.fail(n.pos, "", "services is a mapping from names to settings, not %s", n.kind)
		return nil
	}
	var services []*Service
	p.services = map[string]service{}
	for _, f := range n.fields {
		s := &Service{Name: f.name, pos: f.pos}
		if problem := nameProblem(f.name); problem != "" {
			p.fail(f.pos, "", "a service's name, %q, %s", shorten(f.name), problem)
		}
		inherits := p.defaults
		if p.object(f.value, "a service", p.withForms(serviceKeys)) {
			s.Description = p.text(f.value.get("description"), "description")
			s.Settings = p.settings(f.value)
			inherits = p.shared(f.value, &s.Settings, "the service", p.defaults, p.doc.Defaults.Policy)
		}
		p.services[s.Name] = service{s.Policy, inherits}
		if !slices.ContainsFunc(services, func(o *Service) bool { return o.Name == s.Name }) {
			services = append(services, s)
		}
	}
	return services
}

func (p *parsing) settings(n *node) Settings {
	s := Settings{Policy: p.policy(n, false)}
	s.Queue = p.text(n.get("queue"), "queue")
	s.Priority = p.priority(n.get("priority"))
	if e := n.get("exec"); p.object(e, "exec here", execSettingsKeys) {
		s.Exec = p.execFields(e)
	}
	if h := n.get("http"); p.object(h, "http here", httpSettingsKeys) {
		s.HTTP = p.httpFields(h)
	}
	return s
}

func (p *parsing) priority(n *node) *int32 {
	value, ok := p.whole(n, "priority", -1000, 1000)
	if !ok {
		return nil
	}
	priority := int32(value)
	return &priority
}

// orList joins words as a sentence does: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
