package aether

import (
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/fields"
)

// fieldsBase holds the files whose fields are changed.
const fieldsBase = `{
"workflow": {"apiVersion": "aether/v1", "kind": "Workflow", "metadata": {"name": "w"}, "spec": {
  "entrypoint": "main", "arguments": {"parameters": [{"name": "p", "value": 1}]},
      "hooks": {"onSuccess": {"template": "t"}}, "templates": [
  {"dag": {"name": "main", "inputs": {"parameters": [{"name": "own", "value": 1}]}, "tasks": [
    {"name": "a", "executor": {"type": "echo", "config": {"k": "v"}}, "retry": {"limit": 2},
        "continueOn": {"failed": true}},
    {"name": "b", "template": "inner", "dependencies": ["a"], "arguments": {"parameters": [{"name": "x", "value": 1}]}},
    {"name": "c", "template": "many", "dependencies": ["a"]},
    {"name": "d", "template": "again"},
    {"name": "e", "template": "t", "dependencies": ["b", "c"], "arguments": {"parameters": [{"name": "y",
        "valueFrom": {"parameter": "tasks.c.outputs.parameters.o"}}]}},
    {"name": "f", "executor": {"type": "human"}},
    {"name": "g", "executor": {"type": "subtree"}},
    {"name": "h", "template": "strict"}]}},
  {"dag": {"name": "inner", "inputs": {"parameters": [{"name": "x"}]}, "outputs": {"parameters": [{"name": "o",
      "valueFrom": {"parameter": "tasks.z.outputs.parameters.q"}}]}, "tasks": [{"name": "z", "template": "t"}]}},
  {"task": {"name": "t", "executor": {"type": "echo"}}},
  {"loop": {"name": "many", "items": [1, 2], "body": "t", "aggregate": {"strategy": "list", "parameters": ["o"]}}},
  {"loop": {"name": "again", "repeatCondition": "loop_iter.index < 1", "maxIterations": 3, "body": "t"}},
  {"task": {"name": "strict", "executor": {"type": "echo"}, "phaseConditions": {"failed": "code == 2"}}}]}},
"handlers": {"handlers": {"echo": {"exec": {"command": ["./echo"]}}, "other": {"http": {"url": "http://x"}},
    "work": {"task": {"type": "T"}}, "human": {"wait": {}}, "subtree": {"flow": "inner"}}}}`

// TestNothingIsDropped checks that every field of a workflow and of the handlers changes the flows, or is noted or
// refused.
func TestNothingIsDropped(t *testing.T) {
	type object = map[string]any
	type list = []any
	refused := func(v any) any { return fields.Refused{Value: v} }
	noted := func(v any) any { return fields.Noted{Value: v} }
	params := func(v ...any) object { return object{"parameters": v} }
	templates, tasks := list{"spec", "templates"}, list{"spec", "templates", 0, "dag", "tasks"}
	at := func(path list, more ...any) list { return append(path[:len(path):len(path)], more...) }
	task := func(change object) object {
		all := object{
			"name": "q", "template": "t", "executor": object{"type": "other"}, "dependencies": list{"d"},
			"arguments": params(object{"name": "n", "value": 1}),
			"inputs":    params(object{"name": "n", "value": 1}), "outputs": noted(params(object{"name": "n"})),
			"when": "true", "timeout": "5s",
			"retry": object{"limit": 1}, "continueOn": object{"timeout": true},
			"hooks":     object{"onSuccess": object{"template": "t"}},
			"resources": noted(object{"cpu": 1}), "phaseConditions": object{"failed": "true"},
		}
		for k, v := range change {
			all[k] = v
		}
		return all
	}
	objects := []fields.Object{
		{File: "workflow", Fields: object{
			"apiVersion": refused("v2"), "kind": refused("CronWorkflow"),
			"metadata": refused("w"), "spec": refused(object{}),
		}},
		{File: "workflow", Path: list{"metadata"}, Fields: object{
			"name": "v", "namespace": noted("n"), "version": noted("1.0"), "labels": noted(object{"a": "b"}),
			"annotations": noted(object{"a": "b"}), "uid": noted("u"),
		}},
		{File: "workflow", Path: list{"spec"}, Fields: object{
			"entrypoint": "inner", "arguments": object{}, "timeout": "5m", "priority": 7, "maxNestedDepth": refused(1),
			"templates": refused(list{}), "hooks": object{},
		}},
		{
			File: "workflow", Path: list{"spec", "arguments"},
			Fields: object{
				"parameters": list{},
				"artifacts":  refused(list{object{"name": "a"}}),
			},
		},
		{File: "workflow", Path: list{"spec", "arguments", "parameters", 0}, Fields: object{
			"name": "r", "type": noted("int"), "value": 2,
			"valueFrom": noted(object{"parameter": "workflow.arguments.parameters.q"}), "description": noted("d"),
			"required": noted(true), "default": noted(5), "enum": noted(list{1}),
		}},
		{File: "workflow", Path: at(tasks, 1, "arguments", "parameters", 0), Fields: object{
			"name": "r", "type": noted("int"), "value": 2,
			"valueFrom": noted(object{"parameter": "tasks.a.outputs.parameters.q"}), "description": noted("d"),
			"required": noted(true), "default": noted(5), "enum": noted(list{1}),
		}},
		{File: "workflow", Path: at(tasks, 4, "arguments", "parameters", 0, "valueFrom"), Fields: object{
			"path": "tasks.b.outputs.parameters.o", "parameter": "tasks.b.outputs.parameters.o",
			"expression": noted("1 + 1"), "secretKeyRef": refused(object{"name": "n", "key": "k"}),
		}},
		{
			File: "workflow", Path: at(templates, 5, "task", "phaseConditions"),
			Fields: object{"succeeded": "code == 3", "failed": "outputs.parameters.x > 1", "error": "msg == ''"},
		},
		{File: "workflow", Path: list{"spec", "hooks"}, Fields: object{
			"onStart":   noted(object{"template": "t"}),
			"onSuccess": object{"template": "t", "arguments": params(object{"name": "n", "value": 1})},
			"onFailure": object{"template": "t"},
			"onError":   object{"template": "t"}, "onTimeout": object{"template": "t"},
			"onCancel": object{"template": "t"}, "onExit": object{"template": "t"},
			"onSuspend": noted(object{"template": "t"}), "onResume": noted(object{"template": "t"}),
		}},
		{
			File: "workflow", Path: list{"spec", "hooks", "onSuccess"},
			Fields: object{"template": refused("main"), "arguments": params(object{"name": "n", "value": 1})},
		},
		{File: "workflow", Path: at(templates, 0), Fields: object{
			"dag": refused(1), "task": refused(object{}),
			"loop": refused(object{}),
		}},
		{File: "workflow", Path: at(templates, 0, "dag"), Fields: object{
			"name": refused("m"), "tasks": refused(list{}), "entrypoints": "a", "continueOn": object{"error": true},
			"phaseConditions": refused(object{"failed": "true"}),
			"timeout":         noted("5m"), "inputs": object{},
			"outputs": params(object{"name": "o", "valueFrom": object{"parameter": "tasks.a.outputs.parameters.q"}}),
		}},
		{File: "workflow", Path: at(templates, 1, "dag"), Fields: object{
			"name": refused("m"), "tasks": refused(list{}), "entrypoints": refused("y"),
			"continueOn": object{"error": true}, "phaseConditions": refused(object{"failed": "true"}),
			"timeout": "5m", "inputs": params(object{"name": "x"}, object{"name": "n", "value": 1}),
			"outputs": object{},
		}},
		{File: "workflow", Path: at(tasks, 0), Fields: task(object{"name": refused("q"), "template": "t"})},
		{File: "workflow", Path: at(tasks, 0, "executor"), Fields: object{"type": "other", "config": object{"k": "w"}}},
		{
			File: "workflow", Path: at(tasks, 0, "continueOn"),
			Fields: object{"failed": false, "error": true, "timeout": true},
		},
		{File: "workflow", Path: at(tasks, 1), Fields: task(object{
			"name":     refused("q"),
			"executor": noted(object{"type": "other"}), "inputs": noted(params(object{"name": "n", "value": 1})),
			"phaseConditions": noted(object{"failed": "true"}), "retry": refused(object{"limit": 1}),
		})},
		{File: "workflow", Path: at(tasks, 2), Fields: task(object{
			"name": refused("q"), "template": "t", "executor": noted(object{"type": "other"}),
			"inputs":          noted(params(object{"name": "n", "value": 1})),
			"phaseConditions": noted(object{"failed": "true"}), "dependencies": list{"a", "d"},
			"retry": refused(object{"limit": 1}),
		})},
		{File: "workflow", Path: at(tasks, 3), Fields: task(object{
			"executor":        noted(object{"type": "other"}),
			"inputs":          noted(params(object{"name": "n", "value": 1})),
			"phaseConditions": noted(object{"failed": "true"}), "dependencies": list{"a"},
			"retry": refused(object{"limit": 1}),
		})},
		{File: "workflow", Path: at(tasks, 5), Fields: task(object{
			"phaseConditions": refused(object{"failed": "true"}), "retry": noted(object{"limit": 1}),
			"arguments": noted(params(object{"name": "n", "value": 1})),
			"inputs":    noted(params(object{"name": "n", "value": 1})),
		})},
		{
			File: "workflow", Path: at(tasks, 6, "executor"),
			Fields: object{"type": "other", "config": noted(object{"k": 1})},
		},
		{File: "workflow", Path: at(templates, 2, "task"), Fields: object{
			"name": refused("u"), "executor": object{"type": "other"},
			"inputs": params(object{"name": "n", "value": 1}), "outputs": refused(params(object{"name": "n"})),
			"timeout": "5s", "resources": noted(object{"cpu": 1}), "phaseConditions": object{"failed": "true"},
			"retry": noted(object{"limit": 1}),
		}},
		{File: "workflow", Path: at(templates, 3, "loop"), Fields: object{
			"name": refused("u"), "items": list{3}, "itemsFrom": refused("inputs.x"),
			"repeatCondition": refused("true"), "maxIterations": 1, "concurrency": 2,
			"body": "inner", "arguments": params(object{"name": "n", "value": "{{iterator.item}}"}),
			"aggregate": object{"strategy": "first"},
			"inputs":    params(object{"name": "n", "value": 1}), "outputs": noted(params(object{"name": "n"})),
			"timeout": "5s", "phaseConditions": refused(object{"failed": "true"}),
		}},
		{
			File: "workflow", Path: at(templates, 3, "loop", "aggregate"),
			Fields: object{"strategy": "first", "parameters": refused(list{"other"})},
		},
		{File: "workflow", Path: at(templates, 4, "loop"), Fields: object{
			"name": refused("u"), "items": refused(list{3}), "itemsFrom": refused("inputs.x"),
			"repeatCondition": "true", "maxIterations": 4, "concurrency": refused(2),
			"body": "inner", "arguments": params(object{"name": "n", "value": "{{loop_iter.index}}"}),
			"aggregate": refused(object{"strategy": "sum"}),
			"inputs":    params(object{"name": "n", "value": 1}), "outputs": noted(params(object{"name": "n"})),
			"timeout": "5s", "phaseConditions": refused(object{"failed": "true"}),
		}},
		{File: "handlers", Fields: object{"handlers": refused(object{})}},
		{File: "handlers", Path: list{"handlers", "echo"}, Fields: object{
			"exec": list{"./other"}, "http": refused("http://x"), "task": refused(object{"type": "T"}),
			"flow": refused("inner"), "wait": refused(object{}), "suspends": refused(true), // a hook runs it
		}},
		{
			File: "handlers", Path: list{"handlers", "echo", "exec"},
			Fields: object{"command": list{"./other"}, "shell": refused("x"), "env": object{"A": "b"}, "dir": "/tmp"},
		},
	}
	fields.Check(t, fieldsBase, func(files map[string][]byte) (*dialect.Conversion, error) {
		return Convert(Source{"workflow", files["workflow"]}, Source{"handlers", files["handlers"]})
	}, objects)
}
