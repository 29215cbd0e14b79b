package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/pawl-dev/pawl/internal/tree"
)

// Decode reads JSON as expressions need it: whole numbers are integers. No bytes are null.
func Decode(data []byte) (any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return plain(v), nil
}

// plain replaces the numbers in decoded JSON.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		return tree.ParseNumber(v.String())
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name, value := range v {
			v[name] = plain(value)
		}
	}
	return v
}
