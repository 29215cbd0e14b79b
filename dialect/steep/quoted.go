package steep

import (
	"maps"
	"strconv"
	"strings"
)

// quotedNumber reads a whole number that is written as a text, as Steep's reader does: "3" and " 3 ", but not "1.5".
func quotedNumber(text string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	return n, err == nil
}

// quotedTruth reads true or false that is written as a text, as Steep's reader does: true, True and TRUE, but not yes.
func quotedTruth(text string) (value, ok bool) {
	switch strings.TrimSpace(text) {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	default:
		return false, false
	}
}

// unquote returns a mapping in which texts in the named fields are replaced by the numbers, true or false that they
// contain. Other values, and texts of another form, stay as they are, so that their reader refuses them.
func unquote(v any, fields ...string) any {
	values, ok := v.(map[string]any)
	if !ok {
		return v
	}
	values = maps.Clone(values)
	for _, name := range fields {
		text, ok := values[name].(string)
		if !ok {
			continue
		}
		if n, ok := quotedNumber(text); ok {
			values[name] = n
		} else if b, ok := quotedTruth(text); ok {
			values[name] = b
		}
	}
	return values
}
