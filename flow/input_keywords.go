package flow

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// keywords of JSON Schema, by the kind of value that they take.
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

// keywords refuses words in a schema that mean nothing there. JSON Schema itself ignores them, so a property that is
// written beside properties, or a misspelt word, would check nothing. Words that begin with x- are anybody's.
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
