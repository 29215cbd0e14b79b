package flow

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/flow/internal/expr"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// The keys of templates.
var (
	templateKeys = append([]string{
		"description", "from", "parameters", "service", "forEach", "matrix", "itemName", "concurrency", "timeout",
		"retry", "queue", "priority", "key",
	}, kindKeys...)
	parameterKeys = []string{"description", "default"}
)

// maxTemplateFiles is how many files the templates of a flow may come from.
const maxTemplateFiles = 100

// template is a step's action with parameters: a step that names it gets all of its fields but the first three.
type template struct {
	name       string
	pos        tree.Pos
	node       *tree.Node
	parameters map[string]*tree.Node // their defaults; nil: a value must be given
	order      []string              // names of the parameters, in order
	uses       map[string]bool       // the parameters that its fields name
	used       bool
}

// ParseFiles parses as [Parse] does, for a flow whose templates may stand in other files. The argument read returns
// the text of one, by the path that the flow gives. [Document.Files] has the texts that were read.
func ParseFiles(name string, src []byte, read func(path string) ([]byte, error), forms ...Form) (*Document, error) {
	return parse(name, src, reading{read: read}, forms)
}

// Files returns the texts of the files that contain the document's templates, by their paths in the document; nil if
// there are none.
func (d *Document) Files() map[string]string { return d.files }

func (p *parsing) readTemplates(n *tree.Node) {
	if n == nil || n.Kind == tree.Null {
		return
	}
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "", "templates is a mapping from names to templates, not %s", n.Kind)
		return
	}
	p.templates = map[string]*template{}
	for _, f := range n.Fields {
		if problem := nameProblem(f.Name); problem != "" {
			p.Fail(f.Pos, "", "a template's name, %q, %s", tree.Shorten(f.Name), problem)
			continue
		}
		p.templates[f.Name] = nil // a step that names it is not wrong
		node := f.Value
		if node.Kind == tree.Mapping && node.Get("from") != nil {
			node = p.templateFrom(f.Name, node)
		}
		if t := p.template(f.Name, f.Pos, node); t != nil {
			p.templates[f.Name] = t
		} else if len(p.Errors) == 0 { // a step must not do nothing because its template is not there
			p.Fail(f.Pos, "give it an action, or the path of a file: from: lib/steps.yaml",
				"the template %q says nothing", f.Name)
		}
	}
}

// templateFrom finds the template of that name in the file that n names.
func (p *parsing) templateFrom(name string, n *tree.Node) *tree.Node {
	for _, f := range n.Fields {
		if f.Name != "from" {
			p.Fail(f.Pos, "leave it out", "from takes the whole template, so %s has no place beside it", f.Name)
			return nil
		}
	}
	from := n.Get("from")
	file := p.text(from, "from")
	if file == "" {
		return nil
	}
	root := p.templateFile(from, file)
	if root == nil {
		return nil
	}
	templates := root.Get("templates")
	if templates == nil || templates.Kind != tree.Mapping {
		p.Fail(root.Pos, "it holds templates: and nothing else", "a file of templates has a mapping of them")
		return nil
	}
	found := templates.Get(name)
	switch {
	case found == nil:
		names := make([]string, len(templates.Fields))
		for i, f := range templates.Fields {
			names[i] = f.Name
		}
		p.Fail(from.Pos, nearest.Hint(name, names), "%s has no template %q; it has %s", file, name,
			strings.Join(names, ", "))
	case found.Kind == tree.Mapping && found.Get("from") != nil:
		p.Fail(found.Key("from"), "name that file in the flow", "a template of another file stands in that file itself")
		return nil
	}
	return found
}

// templateFile reads a file of templates, once.
func (p *parsing) templateFile(from *tree.Node, file string) *tree.Node {
	if root, known := p.roots[file]; known {
		return root
	}
	if p.roots == nil {
		p.roots, p.files = map[string]*tree.Node{}, map[string]string{}
	}
	p.roots[file] = nil
	if p.read == nil {
		p.Fail(from.Pos, "write the template into the flow", "the flow was given as a text, so no file can be read")
		return nil
	}
	if len(p.files) >= maxTemplateFiles {
		p.Fail(from.Pos, "", "templates come from more than %d files", maxTemplateFiles)
		return nil
	}
	src, err := p.read(file)
	if err != nil {
		p.Fail(from.Pos, "", "the templates cannot be read: %s", err)
		return nil
	}
	text := string(src)
	p.files[file] = text
	root := tree.ParseFurther(p.Reports, text, p.Source.Add(beside(p.Source.Name, file), text))
	if len(p.Errors) == 0 && (root == nil || root.Kind == tree.Null) {
		p.Fail(from.Pos, "it holds pawl: 1 and templates:", "the file %s is empty", file)
	}
	if root == nil || !p.object(root, "a file of templates", []string{"pawl", "templates"}) || !p.version(root) {
		return nil
	}
	p.roots[file] = root
	return root
}

// beside returns the path of a file, as errors name it, that another one names.
func beside(file, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return path.Join(path.Dir(filepath.ToSlash(file)), filepath.ToSlash(name))
}

// template reads one template, or nil if it is wrong.
func (p *parsing) template(name string, pos tree.Pos, n *tree.Node) *template {
	if n == nil {
		return nil
	}
	before := len(p.Errors)
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "", "a template is a mapping, not %s", n.Kind)
		return nil
	}
	p.object(n, "a template", p.withForms(templateKeys))
	t := &template{name: name, pos: pos, parameters: map[string]*tree.Node{}, uses: map[string]bool{}}
	t.node = &tree.Node{Kind: tree.Mapping, Pos: n.Pos}
	for _, f := range n.Fields {
		switch f.Name {
		case "description":
			p.text(f.Value, "description")
		case "parameters":
			p.parameters(t, f.Value)
		default:
			t.node.Add(f.Name, f.Pos, f.Value)
		}
	}
	// Whatever values it gets, it must name its own parameters only.
	_, err := p.filled(t.node, &expr.Filler{Value: func(parameter string, in *tree.Node) *tree.Node {
		t.uses[parameter] = true
		if !slices.Contains(t.order, parameter) {
			hint := nearest.Hint(parameter, t.order)
			if hint == "" {
				hint = "add it to the template's parameters"
			}
			p.Fail(in.Pos, hint, "the template %q has no parameter %q", name, parameter)
		}
		return nil
	}})
	if err != nil || len(p.Errors) > before {
		return nil
	}
	return t
}

func (p *parsing) parameters(t *template, n *tree.Node) {
	if n.Kind == tree.Null {
		return
	}
	if n.Kind != tree.Mapping {
		p.Fail(n.Pos, "write parameters: {package: {default: ./...}}", "parameters is a mapping by name, not %s",
			tree.Describe(n))
		return
	}
	for _, f := range n.Fields {
		if problem := parameterProblem(f.Name); problem != "" {
			p.Fail(f.Pos, "", "a parameter's name, %q, %s", tree.Shorten(f.Name), problem)
		}
		t.order = append(t.order, f.Name)
		if p.object(f.Value, "a parameter", parameterKeys) {
			p.text(f.Value.Get("description"), "description")
			t.parameters[f.Name] = f.Value.Get("default")
		}
	}
}

// parameterProblem describes what is wrong with the name of a parameter: expressions must be able to write with.NAME.
func parameterProblem(name string) string {
	for i, c := range name {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return fmt.Sprintf("holds %q; letters, digits and _ are allowed, a letter or _ first", c)
		}
	}
	return nameProblem(name)
}

// expand returns a step with the fields of the template that it names. The step's own fields replace those.
func (p *parsing) expand(step *tree.Node) (whole *tree.Node, with []*tree.Node) {
	named := step.Get("template")
	if named == nil {
		if step.Get("with") != nil {
			p.Fail(step.Key("with"), "name the template: template: NAME",
				"with is for a template, and the step names none")
		}
		return step, nil
	}
	name := p.text(named, "template")
	t, known := p.templates[name]
	if !known && name != "" {
		names := make([]string, 0, len(p.templates))
		for other := range p.templates {
			names = append(names, other)
		}
		hint := nearest.Hint(name, names)
		if hint == "" && len(names) == 0 {
			hint = "the flow has no templates"
		}
		p.Fail(named.Pos, hint, "there is no template %q", name)
	}
	if t == nil {
		if len(p.Errors) == 0 {
			p.Fail(named.Pos, "", "the step names no template")
		}
		return nil, nil
	}
	t.used = true
	for _, f := range step.Fields {
		if contains(kindKeys, f.Name) {
			p.Fail(f.Pos, "remove one of them", "the step does what its template does, and %s", f.Name)
			return nil, nil
		}
	}
	values, ok := p.with(t, step)
	if !ok {
		return nil, nil
	}
	valueOf := func(name string, _ *tree.Node) *tree.Node { return values[name] }
	body, err := p.filled(t.node, &expr.Filler{Value: valueOf})
	if err != nil {
		p.Fail(named.Pos, "", "%s", err)
		return nil, nil
	}
	whole = &tree.Node{Kind: tree.Mapping, Pos: step.Pos}
	for _, f := range step.Fields {
		if f.Name != "template" && f.Name != "with" {
			whole.Add(f.Name, f.Pos, f.Value)
		}
	}
	for _, f := range body.Fields {
		if step.Get(f.Name) == nil {
			whole.Add(f.Name, f.Pos, f.Value)
		}
	}
	for _, name := range t.order {
		with = append(with, values[name])
	}
	return whole, with
}

// with returns the values of a template's parameters in one step.
func (p *parsing) with(t *template, step *tree.Node) (values map[string]*tree.Node, ok bool) {
	values, given := map[string]*tree.Node{}, step.Get("with")
	if given != nil && given.Kind != tree.Mapping && given.Kind != tree.Null {
		p.Fail(given.Pos, "", "with is a mapping from parameters to values, not %s", tree.Describe(given))
		return nil, false
	}
	if ok = given == nil || given.Kind == tree.Null; !ok {
		ok = p.object(given, fmt.Sprintf("with of the template %q", t.name), t.order)
	}
	for _, name := range t.order {
		value := t.parameters[name]
		if given != nil && given.Get(name) != nil {
			value = given.Get(name)
		}
		if value == nil {
			p.Fail(step.Key("template"), "add it to with", "the template %q needs the parameter %q", t.name, name)
			ok = false
			continue
		}
		values[name] = value
	}
	if given != nil {
		for _, f := range given.Fields {
			ok = ok && slices.Contains(t.order, f.Name)
		}
	}
	return values, ok
}

// filled puts values into the fields of a template. The condition of a retry policy is an expression as a whole.
func (p *parsing) filled(body *tree.Node, f *expr.Filler) (*tree.Node, error) {
	out := &tree.Node{Kind: tree.Mapping, Pos: body.Pos}
	for _, field := range body.Fields {
		value, err := f.Fill(field.Value)
		if err == nil && field.Name == "retry" && value.Kind == tree.Mapping {
			value, err = filledRetry(value, f)
		}
		if err != nil {
			return nil, err
		}
		out.Add(field.Name, field.Pos, value)
	}
	return out, nil
}

func filledRetry(retry *tree.Node, f *expr.Filler) (*tree.Node, error) {
	out := &tree.Node{Kind: tree.Mapping, Pos: retry.Pos}
	for _, field := range retry.Fields {
		value := field.Value
		if field.Name == "when" {
			var err error
			if value, err = f.Condition(value); err != nil {
				return nil, err
			}
		}
		out.Add(field.Name, field.Pos, value)
	}
	return out, nil
}
