package stevora

import (
	"testing"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/fields"
)

// fieldsBase holds the files whose fields are changed.
const fieldsBase = `{
"definition": {"name": "w", "version": "1", "steps": [
  {"type": "task", "name": "a", "handler": "call", "retry": {"maxAttempts": 4}},
  {"type": "condition", "name": "b", "expression": "x", "trueStep": "c", "falseStep": "d"},
  {"type": "wait", "name": "c", "durationMs": 5},
  {"type": "external_event", "name": "d", "signalType": "s"},
  {"type": "approval", "name": "e", "contentKey": "k"},
  {"type": "llm", "name": "f", "model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "t",
      "description": "d", "parameters": {}}],
   "guardrails": {"postChecks": [{"type": "content_safety"}]}},
  {"type": "task", "name": "g", "handler": "call"}]},
"handlers": {"handlers": {"call": {"exec": {"command": ["./call"]}}, "other": {"exec": ["./other"]},
    "llm": {"http": {"url": "http://x"}}}}}`

// TestNothingIsDropped checks that every field of a definition changes the flow, or is noted or refused.
func TestNothingIsDropped(t *testing.T) {
	type object = map[string]any
	type list = []any
	refused := func(v any) any { return fields.Refused{Value: v} }
	noted := func(v any) any { return fields.Noted{Value: v} }
	step := func(i int, more ...any) list { return append(list{"steps", i}, more...) }
	retry := object{"maxAttempts": 2}
	objects := []fields.Object{
		{File: "definition", Fields: object{
			"name": "v", "version": refused(""), "description": "d",
			"steps": refused(list{}),
		}},
		{File: "definition", Path: step(0), Fields: object{
			"type": refused("wait"), "name": "q", "retry": retry,
			"handler": "other", "config": object{"k": 1},
		}},
		{File: "definition", Path: step(1), Fields: object{
			"type": refused("wait"), "name": "q", "retry": noted(retry),
			"expression": "y.z", "trueStep": "e", "falseStep": "e",
		}},
		{File: "definition", Path: step(2), Fields: object{
			"type": refused("task"), "name": refused("q"), "retry": noted(retry), "durationMs": 6,
			"untilTimestamp": noted("2030-01-01T00:00:00Z"),
		}},
		{File: "definition", Path: step(3), Fields: object{
			"type": refused("task"), "name": refused("q"),
			"retry": noted(retry), "signalType": "z", "timeoutMs": 5,
		}},
		{File: "definition", Path: step(4), Fields: object{
			"type": refused("task"), "name": "q", "retry": noted(retry), "contentKey": "z", "prompt": "please",
			"timeoutMs": 5,
		}},
		{File: "definition", Path: step(5), Fields: object{
			"type": refused("task"), "name": "q", "retry": retry, "model": "n", "fallbackModels": list{"n"},
			"systemPrompt": "be {{input.tone}}",
			"messages":     list{object{"role": "system", "content": "hi {{name}}"}},
			"temperature":  1.5, "maxTokens": 7,
			"responseFormat": "json",
			"outputSchema":   object{"type": "object"}, "tools": list{}, "guardrails": object{"onFailure": "block"},
			"maxToolRounds": 5,
		}},
		{File: "definition", Path: step(5, "messages", 0), Fields: object{"role": "assistant", "content": "ho"}},
		{
			File: "definition", Path: step(5, "tools", 0),
			Fields: object{"name": "u", "description": "e", "parameters": object{"type": "object"}},
		},
		{File: "definition", Path: step(5, "guardrails"), Fields: object{"postChecks": list{}, "onFailure": "warn"}},
		{
			File: "definition", Path: step(5, "guardrails", "postChecks", 0),
			Fields: object{"type": "schema_validation", "config": object{"a": 1}},
		},
		{File: "handlers", Fields: object{"handlers": refused(object{})}},
		{
			File: "handlers", Path: list{"handlers", "call"},
			Fields: object{"exec": list{"./x"}, "http": refused("http://x"), "task": refused(object{"type": "T"})},
		},
		{
			File: "handlers", Path: list{"handlers", "call", "exec"},
			Fields: object{"command": list{"./x"}, "shell": refused("x"), "env": object{"A": "b"}, "dir": "/tmp"},
		},
		{File: "handlers", Path: list{"handlers", "llm", "http"}, Fields: object{
			"url": "http://y", "method": "PUT", "headers": object{"A": "b"}, "expect": list{200},
		}},
	}
	fields.Check(t, fieldsBase, func(files map[string][]byte) (*dialect.Conversion, error) {
		return Convert(Source{"definition", files["definition"]}, Source{"handlers", files["handlers"]})
	}, objects)
}
