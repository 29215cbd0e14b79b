package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Parse reads a flow from YAML or JSON and checks all of it. name is its name in errors; forms are the words of other
// systems that it understands. Every error is an [Errors] value, sorted by place, with the first of them if there are
// very many.
func Parse(name string, src []byte, forms ...Form) (*Document, error) {
	return parse(name, src, reading{}, forms)
}

// reading is how a document is read.
type reading struct {
	read func(path string) ([]byte, error) // see ParseFiles; nil if there are no other files
}

func parse(name string, src []byte, how reading, forms []Form) (*Document, error) {
	text := string(src)
	p := &parsing{
		Reports: &tree.Reports{Source: tree.NewSource(name, text)}, reading: how, forms: forms,
		noted: map[string]bool{},
	}
	root := tree.Parse(p.Reports, text)
	if root == nil {
		if p.Err() == nil {
			p.Fail(tree.Pos{Line: 1, Col: 1}, "a flow begins with pawl: 1", "the document is empty")
		}
		return nil, p.Err()
	}
	doc := p.document(root)
	if doc == nil {
		return nil, p.Err()
	}
	doc.whens, doc.amounts, doc.Notes, doc.Form, doc.files = p.whens, p.amounts, p.notes, p.ownForm(), p.files
	slices.SortStableFunc(doc.Notes, func(a, b Note) int { return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Col-b.Pos.Col) })
	doc.built = build(doc, p.Reports)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return doc, nil
}

// parsing decodes the tree of a document into its model.
type parsing struct {
	*tree.Reports
	reading
	doc   *Document
	whens map[*policy.Retry]*tree.Node // where retry conditions stand
	// amounts are the places of the amounts of limits that are expressions.
	amounts map[*policy.Limit]*tree.Node

	forms    []Form
	defaults *formed // settings that the steps inherit in the words of a form
	services map[string]service
	notes    []Note
	noted    map[string]bool
	run      *Form   // the form of the mapping at the top
	found    []*Form // each form that is used, once

	templates map[string]*template  // nil for a wrong one, which was reported
	roots     map[string]*tree.Node // the files of templates that were read; nil for a wrong one
	files     map[string]string     // their texts
}

// service is a service as its steps inherit it.
type service struct {
	policy policy.Policy
	formed *formed
}

// object checks that n is a mapping of known keys only. What is unknown is reported and otherwise ignored.
func (p *parsing) object(n *tree.Node, what string, known []string) bool {
	if n == nil || n.Kind == tree.Null {
		return false
	}
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "", "%s is a mapping with keys such as %s, not %s", what,
			orList(known[:min(len(known), 4)]), n.Kind)
		return false
	}
	for _, f := range n.Fields {
		if contains(known, f.Name) {
			continue
		}
		if p.Full() {
			break
		}
		hint := foreignKey(f.Name, known)
		if hint == "" {
			hint = nearest.Hint(f.Name, known)
		}
		if hint == "" {
			hint = "known are " + strings.Join(known, ", ")
		}
		p.Fail(f.Pos, hint, "%s has no key %q", what, f.Name)
	}
	return true
}

// missing reports that a mapping does not have a key it needs. Where it has an unknown key, that one was probably
// meant and has been reported already.
func (p *parsing) missing(n *tree.Node, known []string, hint, format string, args ...any) {
	for _, f := range n.Fields {
		if !contains(known, f.Name) {
			return
		}
	}
	p.Fail(n.Pos, hint, format, args...)
}

// systems are those in whose words runs can be shown.
var systems = []string{"aether", "steep", "stevora", "temporal", "zart"}

// wordsIn reads whose words a flow has.
func wordsIn(p *parsing, n *tree.Node) string {
	words := p.text(n, "words")
	if words != "" && !contains(systems, words) {
		p.Fail(n.Pos, nearest.Hint(words, systems), "words is %s, not %q", orList(systems), words)
	}
	return words
}

func (p *parsing) text(n *tree.Node, what string) string {
	if n == nil || n.Kind == tree.Null {
		return ""
	}
	if n.Kind != tree.Text {
		hint := ""
		if n.Kind == tree.Bool || n.Kind == tree.Number {
			hint = "put it into quotes"
		}
		p.Fail(n.Pos, hint, "%s is a text, not %s", what, n.Kind)
		return ""
	}
	return n.Text
}

// texts reads a list of texts; a single text is a list of one.
func (p *parsing) texts(n *tree.Node, what string) ([]string, []tree.Pos) {
	if n == nil || n.Kind == tree.Null {
		return nil, nil
	}
	if n.Kind == tree.Text {
		return []string{n.Text}, []tree.Pos{n.Pos}
	}
	if n.Kind != tree.List {
		p.Fail(n.Pos, "", "%s is a list of texts, not %s", what, n.Kind)
		return nil, nil
	}
	texts, places := make([]string, 0, len(n.Items)), make([]tree.Pos, 0, len(n.Items))
	for _, item := range n.Items {
		if text := p.text(item, "an item of "+what); text != "" {
			texts, places = append(texts, text), append(places, item.Pos)
		} else if item.Kind == tree.Null || item.Kind == tree.Text {
			p.Fail(item.Pos, "", "an item of %s is empty", what)
		}
	}
	return texts, places
}

// whole reads a whole number; ok is false if there is no number.
func (p *parsing) whole(n *tree.Node, what string, low, high int) (value int, ok bool) {
	if n == nil || n.Kind == tree.Null {
		return 0, false
	}
	if p.expression(n, what) {
		return 0, false
	}
	value, ok = n.Scalar.(int)
	if n.Kind != tree.Number || !ok {
		p.Fail(n.Pos, "", "%s is a whole number, not %s", what, tree.Describe(n))
		return 0, false
	}
	if value < low || value > high {
		p.Fail(n.Pos, "", "%s is %d; it must be from %d to %d", what, value, low, high)
		return 0, false
	}
	return value, true
}

// newestIn reports whether a run takes the place of the open run that has its workflow id.
func newestIn(p *parsing, n *tree.Node) bool {
	if n == nil || n.Kind == tree.Null {
		return false
	}
	if n.Kind != tree.Text || n.Text != "newest" {
		p.Fail(n.Pos, "a queue bounds how many runs go at once: queue: NAME, queues: {NAME: {concurrency: 1}}",
			"concurrency of a flow is newest, not %s", tree.Describe(n))
		return false
	}
	return true
}

func (p *parsing) truth(n *tree.Node, what string) bool {
	if n == nil || n.Kind == tree.Null {
		return false
	}
	value, ok := n.Scalar.(bool)
	if !ok {
		p.Fail(n.Pos, "", "%s is true or false, not %s", what, tree.Describe(n))
	}
	return value
}

// document decodes the top level. Nil is returned where nothing further down makes sense.
func (p *parsing) document(n *tree.Node) *Document {
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "a flow begins with pawl: 1", "a flow is a mapping, not %s", n.Kind)
		return nil
	}
	if !p.version(n) {
		return nil
	}
	p.object(n, "a flow", p.withForms(documentKeys))
	doc := &Document{File: p.Source.Name, pos: n.Pos, src: p.Source}
	p.doc = doc
	doc.Name = p.text(n.Get("name"), "name")
	if name := n.Get("name"); name == nil || name.Kind == tree.Null || name.Kind == tree.Text && name.Text == "" {
		p.missing(n, p.withForms(documentKeys), "give the flow a name: name: order", "the flow has no name")
	} else {
		p.name(name, "a flow's name")
	}
	doc.Description = p.text(n.Get("description"), "description")
	doc.Words = wordsIn(p, n.Get("words"))
	doc.Input = tree.ValueOf(n.Get("input"))
	doc.Limits = p.runLimits(n.Get("timeout"))
	doc.Retry = p.retry(n.Get("retry"))
	doc.Cron = p.cron(n.Get("cron"))
	if d := p.duration(n.Get("startDelay"), "startDelay"); d != nil {
		doc.StartDelay = *d
	}
	doc.Queue = p.runQueue(n.Get("queue"))
	doc.Secrets = p.secrets(n.Get("secrets"))
	doc.Env = p.variables(n.Get("env"))
	doc.Dotenv = dotenvOf(p, n.Get("dotenv"))
	doc.FailFast = p.truth(n.Get("failFast"), "failFast")
	doc.Newest = newestIn(p, n.Get("concurrency"))
	p.formOfRun(n)
	if d := n.Get("defaults"); p.object(d, "defaults", p.withForms(settingsKeys)) {
		doc.Defaults = p.settings(d)
		p.defaults = p.shared(d, &doc.Defaults, "the defaults", nil, policy.Policy{})
	}
	doc.Queues = p.readQueues(n.Get("queues"))
	doc.Services = p.readServices(n.Get("services"))
	p.readTemplates(n.Get("templates"))
	doc.Steps = p.steps(n)
	doc.Hooks = p.hooks(n.Get("hooks"))
	doc.Notify = p.notify(n.Get("notify"))
	doc.templates = p.templates
	doc.Output = tree.ValueOf(n.Get("output"))
	return doc
}

// version checks `pawl: 1` before anything else: another version may mean anything by its keys.
func (p *parsing) version(n *tree.Node) bool {
	v := n.Get("pawl")
	if v == nil {
		p.Fail(n.Pos, "begin it with pawl: 1", "the flow does not say which version of the format it is written in")
		return len(n.Fields) > 0
	}
	version, ok := v.Scalar.(int)
	switch {
	case !ok || version < 1:
		p.Fail(v.Pos, "write pawl: 1", "the version of the format is a whole number, not %s", tree.Describe(v))
		return true
	case version > formatVersion:
		p.Fail(v.Pos, "a newer Pawl reads it",
			"the flow is written in version %d of the format; this Pawl knows version %d", version, formatVersion)
		return false
	}
	return true
}

// maxName is how many characters a name may have.
const maxName = 100

// nameProblem describes what is wrong with a name, "" if nothing is.
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

func (p *parsing) name(n *tree.Node, what string) {
	if problem := nameProblem(n.Text); n.Kind == tree.Text && n.Text != "" && problem != "" {
		p.Fail(p.Source.Inside(n, 0), "", "%s, %q, %s", what, tree.Shorten(n.Text), problem)
	}
}

func (p *parsing) readServices(n *tree.Node) []*Service {
	if n == nil || n.Kind == tree.Null {
		return nil
	}
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "", "services is a mapping from names to settings, not %s", n.Kind)
		return nil
	}
	var services []*Service
	p.services = map[string]service{}
	for _, f := range n.Fields {
		s := &Service{Name: f.Name, pos: f.Pos}
		if problem := nameProblem(f.Name); problem != "" {
			p.Fail(f.Pos, "", "a service's name, %q, %s", tree.Shorten(f.Name), problem)
		}
		inherits := p.defaults
		if p.object(f.Value, "a service", p.withForms(serviceKeys)) {
			s.Description = p.text(f.Value.Get("description"), "description")
			s.Limits = p.queueLimits(f.Value.Get("limits"))
			s.Settings = p.settings(f.Value)
			inherits = p.shared(f.Value, &s.Settings, "the service", p.defaults, p.doc.Defaults.Policy)
		}
		p.services[s.Name] = service{s.Policy, inherits}
		if !slices.ContainsFunc(services, func(o *Service) bool { return o.Name == s.Name }) {
			services = append(services, s)
		}
	}
	return services
}

func (p *parsing) settings(n *tree.Node) Settings {
	s := Settings{Policy: p.policy(n, false)}
	s.Queue = p.text(n.Get("queue"), "queue")
	s.Priority = p.priority(n.Get("priority"))
	s.Key = tree.ValueOf(n.Get("key"))
	if e := n.Get("exec"); p.object(e, "exec here", execSettingsKeys) {
		s.Exec = p.execFields(e)
	}
	if h := n.Get("http"); p.object(h, "http here", httpSettingsKeys) {
		s.HTTP = p.httpFields(h)
	}
	return s
}

func (p *parsing) priority(n *tree.Node) *int32 {
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
