package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// noLoader keeps a schema from reading files or the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema of another place, %s, is not read; write it into the flow", url)
}

// inputSchema compiles the schema of the input and reports its errors at their places.
func (b *builder) inputSchema() {
	n := tree.NodeOf(b.doc.Input)
	if n == nil || n.Kind == tree.Null {
		return
	}
	if n.Kind != tree.Mapping && n.Kind != tree.Bool {
		b.Fail(n.Pos, "", "input is a JSON Schema, not %s", tree.Describe(n))
		return
	}
	b.keywords(n)
	data, err := tree.AppendJSON(nil, n.Any(), 0)
	if err != nil {
		b.Fail(n.Pos, "", "input: %s", err)
		return
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		b.Fail(n.Pos, "", "input: %s", err)
		return
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	if err = c.AddResource("input.json", schema); err == nil {
		b.def.input, err = c.Compile("input.json")
	}
	if err == nil {
		return
	}
	var invalid *jsonschema.SchemaValidationError
	var detail *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &detail) {
		for _, leaf := range leaves(detail) {
			b.Fail(n.At(leaf.InstanceLocation).Pos, "", "not a JSON Schema: %s", phrase(leaf))
		}
		return
	}
	b.Fail(n.Pos, "", "not a JSON Schema: %s", strings.TrimPrefix(err.Error(), "jsonschema: "))
}

// inputError lists the errors of a run's input.
type inputError struct {
	Workflow string
	Problems []inputProblem
}

// inputProblem is one thing that is wrong with an input.
type inputProblem struct {
	Path string // input.items[2].price
	Msg  string
}

func (e *inputError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Path + ": " + p.Msg
	}
	return fmt.Sprintf("the input does not fit flow %q: %s", e.Workflow, strings.Join(texts, "; "))
}

// CheckInput checks a run's input against the flow's schema and fills in the defaults of its properties. A flow without
// a schema takes the keys that its expressions use, and no others. No input is an empty object where the flow has a
// schema or uses keys, else null. The error lists all its mistakes.
func (d *Document) CheckInput(input []byte) ([]byte, error) {
	checked, err := d.checkInput(input)
	if err != nil {
		return nil, err
	}
	if d.built != nil { // the limits that it gives
		_, err = d.built.limitsIn(checked)
	}
	return checked, err
}

func (d *Document) checkInput(input []byte) ([]byte, error) {
	fail := func(path, format string, args ...any) error {
		return &inputError{d.Name, []inputProblem{{path, fmt.Sprintf(format, args...)}}}
	}
	def, err := d.definition()
	if err != nil {
		return nil, err
	}
	absent := len(bytes.TrimSpace(input)) == 0
	switch {
	case absent && def.input == nil && len(def.takes.Keys()) == 0:
		return []byte("null"), nil
	case absent:
		input = []byte("{}")
	case def.input == nil && def.takes == nil && json.Valid(input): // a value that nobody looks into need not be made
		return input, nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return nil, fail("input", "not JSON: %s", err)
	}
	if def.input == nil {
		return input, d.checkUsed(def, v)
	}
	if object, ok := v.(map[string]any); ok && d.fillDefaults(object) {
		if input, err = json.Marshal(object); err != nil {
			return nil, fail("input", "%s", err)
		}
	}
	e := &inputError{Workflow: d.Name}
	def.language.Input.Unknown("input", v, func(path, hint string) {
		e.Problems = append(e.Problems, inputProblem{path, "not known; " + hint})
	})
	err = def.input.Validate(v)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		for _, leaf := range leaves(invalid) {
			e.add(leaf)
		}
	} else if err != nil {
		return nil, fail("input", "%s", err)
	}
	if len(e.Problems) > 0 {
		return nil, e
	}
	return input, nil
}

// checkUsed checks the input of a flow without a schema: it may have the keys that the flow uses.
func (d *Document) checkUsed(def *definition, v any) error {
	if v == nil || def.takes == nil {
		return nil
	}
	e := &inputError{Workflow: d.Name}
	const declare = "input: true in the flow allows any"
	if _, object := v.(map[string]any); !object {
		e.Problems = append(e.Problems, inputProblem{"input", "the flow takes no such value; " + declare})
		return e
	}
	def.takes.Unknown("input", v, func(path, hint string) {
		switch {
		case len(def.takes.Keys()) == 0:
			hint = "the flow uses no input; " + declare
		case !strings.HasPrefix(hint, "did you mean"):
			hint += "; " + declare
		}
		e.Problems = append(e.Problems, inputProblem{path, "not known; " + hint})
	})
	if len(e.Problems) > 0 {
		return e
	}
	return nil
}

// add adds an error of a place; a missing or unknown property is its own place.
func (e *inputError) add(leaf *jsonschema.ValidationError) {
	at := inputPath(leaf.InstanceLocation)
	switch k := leaf.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			e.Problems = append(e.Problems, inputProblem{at + "." + name, "missing"})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			e.unknown(at + "." + name)
		}
	default:
		e.Problems = append(e.Problems, inputProblem{at, phrase(leaf)})
	}
}

// unknown adds an unknown property, unless it was reported with a hint.
func (e *inputError) unknown(path string) {
	if !slices.ContainsFunc(e.Problems, func(p inputProblem) bool { return p.Path == path }) {
		e.Problems = append(e.Problems, inputProblem{path, "not known"})
	}
}

// fillDefaults sets absent properties of the top level that have a default.
func (d *Document) fillDefaults(object map[string]any) bool {
	filled := false
	properties := tree.NodeOf(d.Input).Get("properties")
	if properties == nil {
		return false
	}
	for _, f := range properties.Fields {
		value := f.Value.Get("default")
		if _, there := object[f.Name]; there || value == nil {
			continue
		}
		object[f.Name] = forSchema(value.Any())
		filled = true
	}
	return filled
}

// forSchema gives numbers the type that the validator expects.
func forSchema(v any) any {
	data, err := tree.AppendJSON(nil, v, 0)
	if err != nil {
		return v
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return v
	}
	return out
}

// leaves returns the errors that have no others below them.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}

var english = message.NewPrinter(xlanguage.English)

func phrase(e *jsonschema.ValidationError) string { return e.ErrorKind.LocalizedString(english) }

// inputPath writes a location as an expression would: input.items[2].price.
func inputPath(location []string) string {
	var b strings.Builder
	b.WriteString("input")
	for _, name := range location {
		if isIndex(name) {
			b.WriteString("[" + name + "]")
		} else {
			b.WriteString("." + name)
		}
	}
	return b.String()
}

// keywords of JSON Schema, by what stands under them.
var (
	schemaKeywords = []string{ // a schema
		"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
	schemaLists    = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaMappings = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
	otherKeywords  = []string{
		"type", "enum", "const", "default", "required", "title", "description", "examples", "format", "pattern",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties",
		"dependentRequired", "dependencies", "deprecated", "readOnly", "writeOnly", "contentEncoding",
		"contentMediaType", "$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor",
		"$vocabulary", "$comment",
	}
	allKeywords = slices.Concat(schemaKeywords, schemaLists, schemaMappings, otherKeywords)
)

// keywords refuses words in a schema that mean nothing there. JSON Schema itself passes over them, so that a property
// which stands beside properties, or a misspelt word, would check nothing. Words that begin with x- are anybody's.
func (b *builder) keywords(schema *tree.Node) {
	if schema.Kind != tree.Mapping {
		return
	}
	for _, f := range schema.Fields {
		switch {
		case slices.Contains(schemaKeywords, f.Name):
			b.keywords(f.Value)
		case slices.Contains(schemaLists, f.Name):
			for _, item := range f.Value.Items {
				b.keywords(item)
			}
		case slices.Contains(schemaMappings, f.Name):
			for _, property := range f.Value.Fields {
				b.keywords(property.Value)
			}
		case !slices.Contains(otherKeywords, f.Name) && !strings.HasPrefix(f.Name, "x-"):
			b.Fail(f.Pos, keywordHint(schema, f), "JSON Schema has no word %q", f.Name)
		}
	}
}

// keywordHint returns what may be meant by a word that JSON Schema does not have.
func keywordHint(schema *tree.Node, f tree.NodeField) string {
	if hint := nearest.Hint(f.Name, allKeywords); hint != "" {
		return hint
	}
	if schema.Get("properties") == nil && schema.Get("type") == nil {
		return "write properties: {" + f.Name + ": {type: string}}"
	}
	return "properties stand under properties; a word of your own begins with x-"
}
