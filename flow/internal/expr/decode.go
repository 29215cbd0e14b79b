package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

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

// plain replaces the numbers in decoded JSON. A whole number that does not fit into 64 bits stays as it is written: it
// is passed on with all its digits, but cannot be used in calculations.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		n := tree.ParseNumber(v.String())
		if _, cut := n.(float64); cut && !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		return n
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
