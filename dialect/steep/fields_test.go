package steep

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/fields"
)

// fieldsBase holds the files whose fields are changed.
const fieldsBase = `{
"workflow": {"api": "4.7.0", "name": "w", "vars": [{"id": "list", "value": ["a", "b"]}, {"id": "made"}, {"id": "all"},
    {"id": "other"}, {"id": "mac"}, {"id": "out2"}], "actions": [
  {"type": "execute", "id": "first", "service": "s", "inputs": [{"id": "in", "value": "x"}], "outputs": [{"id": "out",
      "var": "made"}]},
  {"type": "for", "id": "each", "input": "list", "enumerator": "e", "output": "all", "yieldToOutput": "other",
      "actions": [
    {"type": "execute", "id": "inner", "service": "s", "inputs": [{"id": "in", "var": "e"}], "outputs": [{"id": "out",
        "var": "other"}]}]},
  {"type": "include", "id": "inc", "macro": "m", "inputs": [{"id": "i", "value": "y"}], "outputs": [{"id": "o",
      "var": "mac"}]},
  {"type": "execute", "id": "last", "service": "s", "inputs": [{"id": "in", "var": "all"}, {"id": "in", "var": "mac"},
      {"id": "in", "var": "made"}]}]},
"services": [
  {"id": "s", "path": "./s", "runtime": "other", "parameters": [{"id": "in", "type": "input", "cardinality": "0..n"},
      {"id": "out", "type": "output", "cardinality": "0..1"},
    {"id": "flag", "type": "input", "cardinality": "1..1", "default": "f"}]},
  {"id": "t", "path": "./t", "runtime": "other", "parameters": [{"id": "in", "type": "input", "cardinality": "0..n"},
      {"id": "out", "type": "output", "cardinality": "0..1"}]}],
"macros": [
  {"id": "m", "parameters": [{"id": "i", "type": "input"}, {"id": "j", "type": "input", "default": "z"},
      {"id": "o", "type": "output"}], "actions": [
    {"type": "execute", "id": "in", "service": "t", "inputs": [{"id": "in", "var": "i"},
        {"id": "in", "var": "j"}], "outputs": [{"id": "out", "var": "o"}]}]},
  {"id": "n", "parameters": [{"id": "i", "type": "input"}, {"id": "o", "type": "output"}], "actions": [
    {"type": "execute", "id": "in", "service": "s", "inputs": [{"id": "in", "var": "i"}], "outputs": [{"id": "out",
        "var": "o"}]}]}]}`

// TestNothingIsDropped checks that every field of a workflow, a service and a macro changes the flows, or is noted or
// refused.
func TestNothingIsDropped(t *testing.T) {
	type object = map[string]any
	policies := func(fields object) object {
		maps.Copy(fields, object{
			"retries": object{"maxAttempts": 2}, "maxInactivity": "5m", "maxRuntime": "5m",
			"deadline": object{"timeout": 5000, "errorOnTimeout": true},
		})
		return fields
	}
	refused := func(v any) any { return fields.Refused{Value: v} }
	noted := func(v any) any { return fields.Noted{Value: v} }
	objects := []fields.Object{
		{File: "workflow", Fields: object{
			"api": refused("5.0.0"), "name": "v", "priority": 5,
			"retries": object{"processChains": object{"maxAttempts": 2}}, "vars": refused([]any{}),
			"actions": refused([]any{}),
		}},
		{File: "workflow", Path: []any{"vars", 0}, Fields: object{"id": refused("l"), "value": "b"}},
		{File: "workflow", Path: []any{"actions", 0}, Fields: policies(object{
			"type": refused("for"), "id": "second", "service": "t", "inputs": []any{}, "outputs": refused([]any{}),
			"dependsOn":  "inc",
			"parameters": noted([]any{object{"id": "in", "value": 1}}),
		})},
		{
			File: "workflow", Path: []any{"actions", 0, "inputs", 0},
			Fields: object{"id": refused("x"), "var": refused("list"), "value": 5},
		},
		{
			File: "workflow", Path: []any{"actions", 0, "outputs", 0},
			Fields: object{"id": refused("x"), "var": refused("x"), "prefix": "p", "store": true},
		},
		{File: "workflow", Path: []any{"actions", 1}, Fields: object{
			"type": refused("execute"), "id": "every", "input": "made", "enumerator": refused("f"),
			"output": refused("x"), "actions": refused([]any{}),
			"yieldToOutput": "e", "yieldToInput": "other", "dependsOn": []any{"first"},
		}},
		{File: "workflow", Path: []any{"actions", 2}, Fields: object{
			"type": refused("execute"), "id": "included", "macro": "n", "inputs": refused([]any{}),
			"outputs": refused([]any{}), "dependsOn": "first",
		}},
		{
			File: "workflow", Path: []any{"actions", 2, "outputs", 0},
			Fields: object{"id": refused("x"), "var": refused("x")},
		},
		{File: "services", Path: []any{0}, Fields: policies(object{
			"id": refused("q"), "name": "N", "description": "d", "path": "./q", "runtime": refused("docker"),
			"parameters":           refused([]any{}),
			"runtimeArgs":          noted([]any{object{"id": "a", "name": "a", "description": "d"}}),
			"requiredCapabilities": noted([]any{"gpu"}),
		})},
		{File: "services", Path: []any{0, "parameters", 0}, Fields: object{
			"id": refused("x"), "name": noted("N"), "description": noted("d"), "type": refused("output"),
			"cardinality": refused("9..9"), "dataType": "boolean",
			"default": noted(""), "fileSuffix": noted(".x"), "label": "-i",
		}},
		{File: "services", Path: []any{0, "parameters", 1}, Fields: object{
			"id": refused("x"), "name": noted("N"), "description": noted("d"), "type": refused("input"),
			"cardinality": refused("9..9"), "dataType": "directory",
			"default": noted("x"), "fileSuffix": ".x", "label": "-o",
		}},
		{File: "services", Path: []any{0, "parameters", 2}, Fields: object{
			"id": refused("in"), "name": noted("N"), "description": noted("d"), "type": refused("output"),
			"cardinality": "0..1", "dataType": noted("point"),
			"default": "g", "fileSuffix": noted(".x"), "label": "-f",
		}},
		{File: "macros", Path: []any{0}, Fields: object{
			"id": refused("q"), "name": noted("N"), "description": noted("d"), "parameters": refused([]any{}),
			"vars": refused([]any{object{"id": "i"}}), "actions": refused([]any{}),
		}},
		{
			File: "macros", Path: []any{0, "parameters", 1},
			Fields: object{
				"id": refused("x"), "name": noted("N"), "description": noted("d"),
				"type": refused("output"), "default": "q",
			},
		},
	}
	fields.Check(t, fieldsBase, func(files map[string][]byte) (*dialect.Conversion, error) {
		return Convert(Sources{
			Workflow: Source{"workflow", files["workflow"]}, Services: []Source{{"services", files["services"]}},
			Macros: []Source{{"macros", files["macros"]}},
		})
	}, objects)
}

// TestPolicyFields checks that every field of a policy changes the flow. Their forms are those of package dialect.
func TestPolicyFields(t *testing.T) {
	base := map[string]any{"maxAttempts": 3, "delay": 1000, "exponentialBackoff": 2}
	texts := []string{}
	for _, change := range []map[string]any{
		{},
		{"maxAttempts": 4},
		{"delay": "2s"},
		{"exponentialBackoff": 3},
		{"maxDelay": "1500ms"},
	} {
		retries := maps.Clone(base)
		maps.Copy(retries, change)
		text, err := json.Marshal(retries)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Convert(sources("{api: 4.7.0, actions: [{type: execute, service: s, retries: " + string(text) +
			"}]}\n---\n- {id: s, path: ./s, runtime: other}"))
		if err != nil {
			t.Fatal(err)
		}
		flows := write(t, c)
		if slices.Contains(texts, flows) {
			t.Errorf("%v changes nothing", change)
		}
		texts = append(texts, flows)
	}
}
