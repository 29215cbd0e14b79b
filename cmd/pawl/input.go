package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/api"
)

// readInput puts a run's input together from --input flags.
func (a *app) readInput(c *compiled, args []string) ([]byte, error) {
	if len(args) == 0 {
		return nil, nil
	}
	types := inputTypes(c)
	var whole json.RawMessage
	fields := map[string]json.RawMessage{}
	for _, arg := range args {
		if path, ok := strings.CutPrefix(arg, "@"); ok {
			name, src, err := a.readFile(path)
			if err != nil {
				return nil, fmt.Errorf("--input: %w", err)
			}
			if !json.Valid(src) {
				return nil, fmt.Errorf("--input %s: %w", name, jsonError(src))
			}
			whole = src
			continue
		}
		name, text, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--input %q is not written as name=value, nor as @file.json", arg)
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("--input %s is given twice", name)
		}
		fields[name] = inputValue(text, types[name])
	}
	if len(fields) == 0 {
		return whole, nil
	}
	merged := map[string]json.RawMessage{}
	if whole != nil && json.Unmarshal(whole, &merged) != nil {
		return nil, errors.New("--input: the file does not hold an object, so single values cannot be added to it")
	}
	for name, value := range fields {
		merged[name] = value
	}
	return json.Marshal(merged)
}

// inputValue reads a value as JSON if it is JSON and the flow does not ask for a text there; otherwise as a text.
func inputValue(text string, types []string) json.RawMessage {
	onlyText := len(types) > 0 && !slices.ContainsFunc(types,
		func(t string) bool { return t != "string" && t != "null" })
	if !onlyText && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}

// inputTypes reads the types of the input's properties from the flow's schema.
func inputTypes(c *compiled) map[string][]string {
	out := map[string][]string{}
	schema, _ := c.Doc.Input.Any().(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, v := range properties {
		property, _ := v.(map[string]any)
		switch t := property["type"].(type) {
		case string:
			out[name] = []string{t}
		case []any:
			for _, one := range t {
				if text, ok := one.(string); ok {
					out[name] = append(out[name], text)
				}
			}
		}
	}
	return out
}

// readJSON reads a JSON argument: the text itself, or @file.
func (a *app) readJSON(flag, arg string) ([]byte, error) {
	if arg == "" {
		return nil, nil
	}
	src := []byte(arg)
	if path, ok := strings.CutPrefix(arg, "@"); ok {
		var err error
		if _, src, err = a.readFile(path); err != nil {
			return nil, usage("%s: %w", flag, err)
		}
	}
	if !json.Valid(src) {
		return nil, usage("%s: %w; a text is written in double quotes", flag, jsonError(src))
	}
	return src, nil
}

// jsonError reports what is wrong with a JSON text, and where.
func jsonError(src []byte) error {
	var v any
	err := json.Unmarshal(src, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := string(src[:min(int(syntax.Offset), len(src))])
		return fmt.Errorf("not JSON: line %d, column %d: %w", 1+strings.Count(before, "\n"),
			len(before)-strings.LastIndexByte(before, '\n')-1, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

func isConflict(err error) bool { return errors.Is(err, api.Sentinel(api.CodeConflict)) }
