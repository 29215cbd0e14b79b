package flow

import (
	"fmt"
	"maps"
	"slices"
)

// functions replace those of the expression language that walk over a map in an order of chance: a flow's decisions are
// the same each time they are computed.
var functions = []struct {
	name  string
	call  func(...any) (any, error)
	types []any
}{
	{"keys", sortedKeys, []any{new(func(map[string]any) []any)}},
	{"values", sortedValues, []any{new(func(map[string]any) []any)}},
	{"toPairs", sortedPairs, []any{new(func(map[string]any) []any)}},
}

func sortedKeys(args ...any) (any, error) {
	return fromMap(args, func(key string, _ any) any { return key })
}

func sortedValues(args ...any) (any, error) {
	return fromMap(args, func(_ string, value any) any { return value })
}

func sortedPairs(args ...any) (any, error) {
	return fromMap(args, func(key string, value any) any { return []any{key, value} })
}

func fromMap(args []any, item func(string, any) any) (any, error) {
	m, ok := args[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a map with texts as keys is expected, not %s", typeName(args[0]))
	}
	out := make([]any, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, item(key, m[key]))
	}
	return out, nil
}

// typeName names a value's type as a person would.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	if plainNumber(v) != nil {
		return "a number"
	}
	return fmt.Sprintf("%T", v)
}
