package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/duration"
)

// AppendJSON appends a value as JSON: plain data, values of the expression language, and [Fielder] values. Maps are
// written in the order of their keys. depth is how deep the value is nested.
func AppendJSON(buf []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the value is nested more than %d levels deep", maxDepth)
	}
	if len(buf) > maxValue {
		return nil, fmt.Errorf("the value has more than %d bytes as JSON", maxValue)
	}
	switch v := v.(type) {
	case nil:
		return append(buf, "null"...), nil
	case bool:
		return strconv.AppendBool(buf, v), nil
	case string:
		return AppendText(buf, v), nil
	case int:
		return strconv.AppendInt(buf, int64(v), 10), nil
	case float64:
		return appendFloat(buf, v)
	case time.Time:
		return AppendText(buf, v.Format(time.RFC3339Nano)), nil
	case time.Duration:
		return AppendText(buf, duration.Format(v)), nil
	case json.Number:
		return append(buf, v...), nil
	case []any:
		return appendList(buf, len(v), func(i int) any { return v[i] }, depth)
	case map[string]any:
		return appendMap(buf, v, depth)
	case Fielder:
		if fields := v.Fields(); fields != nil {
			return appendMap(buf, fields, depth)
		}
		return append(buf, "null"...), nil
	}
	return appendOther(buf, v, depth)
}

// Fielder is a value that is written as the object of its fields, or as null if Fields returns nil.
type Fielder interface{ Fields() map[string]any }

// maxValue bounds what one value may grow to: lists that hold lists several times are small in memory and huge in JSON.
const maxValue = 16 << 20

func appendList(buf []byte, n int, item func(int) any, depth int) ([]byte, error) {
	var err error
	buf = append(buf, '[')
	for i := range n {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = AppendJSON(buf, item(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(buf, ']'), nil
}

func appendMap(buf []byte, m map[string]any, depth int) ([]byte, error) {
	var err error
	buf = append(buf, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(AppendText(buf, key), ':')
		if buf, err = AppendJSON(buf, m[key], depth+1); err != nil {
			return nil, err
		}
	}
	return append(buf, '}'), nil
}

// appendOther writes the types that the expression language makes besides: other numbers, typed lists and maps.
func appendOther(buf []byte, v any, depth int) ([]byte, error) {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(buf, r.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(buf, r.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return appendFloat(buf, r.Float())
	case reflect.String:
		return AppendText(buf, r.String()), nil
	case reflect.Slice, reflect.Array:
		return appendList(buf, r.Len(), func(i int) any { return r.Index(i).Interface() }, depth)
	case reflect.Map:
		m := make(map[string]any, r.Len())
		for _, key := range r.MapKeys() {
			name, err := TextOf(key.Interface())
			if err != nil {
				return nil, err
			}
			m[name] = r.MapIndex(key).Interface()
		}
		return appendMap(buf, m, depth)
	default:
		return nil, fmt.Errorf("a value of type %T cannot be written as JSON", v)
	}
}

func appendFloat(buf []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v cannot be written as JSON", f)
	}
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendInt(buf, int64(f), 10), nil
	}
	return strconv.AppendFloat(buf, f, 'g', -1, 64), nil
}

// AppendText appends a text as JSON. The characters that are special in HTML are not escaped.
func AppendText(buf []byte, text string) []byte {
	plain := utf8.ValidString(text)
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= ' ' && text[i] != '"' && text[i] != '\\'
	}
	if plain {
		buf = append(buf, '"')
		buf = append(buf, text...)
		return append(buf, '"')
	}
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false) // && and < are for people to read
	_ = enc.Encode(text)     // a text always can be written
	return append(buf, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// TextOf writes a value as text: a text unchanged, null as nothing, everything else as JSON.
func TextOf(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	buf, err := AppendJSON(nil, v, 0)
	if err != nil {
		return "", err
	}
	text := string(buf)
	if strings.HasPrefix(text, `"`) { // an instant or a duration
		if err := json.Unmarshal(buf, &text); err != nil {
			return "", fmt.Errorf("a text that cannot be written: %w", err)
		}
	}
	return text, nil
}
