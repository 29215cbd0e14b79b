package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/vm/runtime"

	"github.com/pawl-dev/pawl/internal/tree"
)

// functions are fail(text), with which an expression refuses its input, and replacements for functions of the library:
// they visit a map in a fixed order, because a flow must decide the same each time, they limit the length of texts, and
// they write values as JSON in the way in which a step's input is written.
var functions = []struct {
	name  string
	call  func(...any) (any, error)
	types []any
}{
	{quoteName, quote, []any{new(func(any) string)}},
	{escapeName, escape, []any{new(func(any) string)}},
	{"string", textOf, []any{new(func(any) string)}},
	{"fail", refused, []any{new(func(string) any)}},
	{"keys", sortedKeys, []any{new(func(map[string]any) []any)}},
	{"values", sortedValues, []any{new(func(map[string]any) []any)}},
	{"toPairs", sortedPairs, []any{new(func(map[string]any) []any)}},
	{"replace", boundedReplace, []any{
		new(func(string, string, string) string),
		new(func(string, string, string, int) string),
	}},
	{"toJSON", toJSON, []any{new(func(any) string)}},
	{"join", boundedJoin, []any{
		new(func([]any) string), new(func([]any, string) string), new(func([]string) string),
		new(func([]string, string) string),
	}},
	{plusName, boundedPlus, []any{new(func(any, any) any)}},
	{textPlusName, boundedPlus, []any{new(func(string, string) string)}},
	{memberName, member, []any{new(func(any, string) any)}},
	{wholeName, whole, []any{new(func(any, string) any), new(func(any, string, bool) any)}},
}

// maxText is how long a text may become in an expression.
const maxText = 4 << 20

var errTooLong = fmt.Errorf("a text grows longer than %d bytes", maxText)

// Refusal is the text with which an expression refused what it was given: fail(text). It needs no place and no
// expression beside it.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refused(args ...any) (any, error) {
	text, _ := args[0].(string)
	return nil, Refusal(text)
}

func boundedPlus(args ...any) (any, error) {
	a, ok1 := args[0].(string)
	b, ok2 := args[1].(string)
	if !ok1 || !ok2 {
		return runtime.Add(args[0], args[1]), nil
	}
	if len(a)+len(b) > maxText {
		return nil, errTooLong
	}
	return a + b, nil
}

func boundedReplace(args ...any) (any, error) {
	text, ok1 := args[0].(string)
	old, ok2 := args[1].(string)
	replacement, ok3 := args[2].(string)
	if !ok1 || !ok2 || !ok3 {
		return nil, errors.New("replace takes texts")
	}
	n := -1
	if len(args) > 3 {
		n, ok1 = args[3].(int)
		if !ok1 {
			return nil, errors.New("replace takes a whole number of times")
		}
	}
	times := strings.Count(text, old)
	if n >= 0 {
		times = min(times, n)
	}
	if len(text)+times*len(replacement) > maxText {
		return nil, errTooLong
	}
	return strings.Replace(text, old, replacement, n), nil
}

func toJSON(args ...any) (any, error) {
	text, err := tree.AppendJSON(nil, args[0], 0)
	if err != nil {
		return nil, err
	}
	if len(text) > maxText {
		return nil, errTooLong
	}
	return string(text), nil
}

func boundedJoin(args ...any) (any, error) {
	list, ok := ListOf(args[0])
	separator := ""
	if len(args) > 1 {
		separator, _ = args[1].(string)
	}
	if !ok {
		return nil, fmt.Errorf("join takes a list, not %s", TypeName(args[0]))
	}
	var b strings.Builder
	for i, item := range list {
		text, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("join takes a list of texts; item %d is %s", i, TypeName(item))
		}
		if b.Len()+len(separator)+len(text) > maxText {
			return nil, errTooLong
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(text)
	}
	return b.String(), nil
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
		return nil, fmt.Errorf("a map with texts as keys is expected, not %s", TypeName(args[0]))
	}
	out := make([]any, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, item(key, m[key]))
	}
	return out, nil
}

// TypeName names a value's type as a person would.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a text"
	case json.Number:
		return largeNumber
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	if tree.PlainNumber(v) != nil {
		return "a number"
	}
	return fmt.Sprintf("%T", v)
}

// nameOfType returns the TypeName of a type without a value of it.
func nameOfType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map:
		return "an object"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "a number"
	default:
		return strings.TrimPrefix(strings.TrimPrefix(t.String(), "*"), "expr.")
	}
}

// ListOf takes the list types that the expression language makes.
func ListOf(v any) ([]any, bool) {
	if list, ok := v.([]any); ok {
		return list, true
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice && r.Kind() != reflect.Array {
		return nil, false
	}
	list := make([]any, r.Len())
	for i := range list {
		list[i] = r.Index(i).Interface()
	}
	return list, true
}
