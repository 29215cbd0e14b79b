package stevora

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
	"github.com/pawl-dev/pawl/internal/nearest"
	"github.com/pawl-dev/pawl/internal/tree"
)

// llm checks a step that asks a language model, as Stevora does; its fields are passed to the handler.
func (r *reader) llm(v tree.Value) {
	r.Need(v, "the llm step", "model")
	for _, model := range r.List(v.Get("fallbackModels"), "fallbackModels") {
		if _, ok := model.Text(); !ok {
			r.Fail(model.Pos(), "", "fallbackModels holds names of models, not %s", model)
		}
	}
	r.Text(v, "systemPrompt")
	messages := r.List(v.Get("messages"), "messages")
	if len(messages) == 0 {
		r.Fail(v.Pos(), "", "the llm step has no messages")
	}
	for _, m := range messages {
		if r.Object(m, "a message", "role", "content") {
			r.oneOf(m, "the message", "role", "system", "user", "assistant")
			r.Need(m, "the message", "content")
		}
	}
	if t := v.Get("temperature"); !t.IsZero() {
		if n, ok := number(t); !ok || n < 0 || n > 2 {
			r.Fail(t.Pos(), "", "temperature is a number from 0 to 2, not %s", t)
		}
	}
	r.Whole(v, "maxTokens", 1, 1, 1<<31)
	if !v.Get("responseFormat").IsZero() {
		r.oneOf(v, "the llm step", "responseFormat", "json", "text")
	}
	r.mapping(v, "outputSchema")
	r.Whole(v, "maxToolRounds", 10, 1, 20)
	for _, tool := range r.List(v.Get("tools"), "tools") {
		if r.Object(tool, "a tool", "name", "description", "parameters") {
			r.Need(tool, "the tool", "name")
			if tool.Get("parameters").IsZero() {
				r.Fail(tool.Pos(), "", "the tool has no parameters")
			}
			r.mapping(tool, "parameters")
		}
	}
	if g := v.Get("guardrails"); r.Object(g, "guardrails", "postChecks", "onFailure") {
		if !g.Get("onFailure").IsZero() {
			r.oneOf(g, "guardrails", "onFailure", "block", "warn", "retry_with_feedback")
		}
		for _, c := range r.List(g.Get("postChecks"), "postChecks") {
			if r.Object(c, "a check", "type", "config") {
				r.oneOf(c, "the check", "type", "content_safety", "schema_validation", "confidence_threshold")
				r.mapping(c, "config")
			}
		}
	}
}

func number(v tree.Value) (float64, bool) {
	switch n := v.Any().(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}

// oneOf reads a text that must be one of the given ones.
func (r *reader) oneOf(v tree.Value, what, key string, words ...string) {
	if text := r.Need(v, what, key); text != "" && !slices.Contains(words, text) {
		r.Fail(v.Get(key).Pos(), nearest.Hint(text, words), "the %s of %s is %s, not %q", key, what,
			strings.Join(words, " or "), text)
	}
}

func (r *reader) mapping(v tree.Value, key string) {
	if field := v.Get(key); !field.IsZero() && !field.IsMapping() {
		r.Fail(field.Pos(), "", "%s is a mapping, not %s", key, field)
	}
}

// filled gives the expression for the data of an llm step: in its prompt and its messages {{input.x}}, {{state.x}} and
// {{x}}, which is looked for in the state and then in the input, are replaced by values.
func filled(config map[string]any) string {
	fields := map[string]string{}
	for name, v := range config {
		switch name {
		case "systemPrompt", "messages":
			fields[name] = texts(v)
		default:
			fields[name] = form.Expr(v)
		}
	}
	return form.Object(fields)
}

func texts(v any) string {
	switch v := v.(type) {
	case string:
		return fill(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = texts(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		fields := map[string]string{}
		for name, item := range v {
			fields[name] = texts(item)
		}
		return form.Object(fields)
	default:
		return form.Expr(v)
	}
}

// fill gives the expression for a text. A placeholder without a value stays as it is.
func fill(text string) string {
	return form.Fill(text, func(name string, _ bool) string {
		value := valueOf(strings.Split(strings.TrimSpace(name), "."))
		return "(let v = " + value + "; v == nil ? " + form.Expr("{{"+name+"}}") +
			` : type(v) == "string" ? v : toJSON(v))`
	})
}

func valueOf(path []string) string {
	switch path[0] {
	case "input":
		return lead("input", path[1:])
	case "state":
		return lead("state", path[1:])
	default:
		return lead("state", path) + " ?? " + lead("input", path)
	}
}

// lead leads into a value.
func lead(expr string, path []string) string {
	for _, name := range path {
		expr += "?.[" + form.Expr(name) + "]"
	}
	return expr
}
