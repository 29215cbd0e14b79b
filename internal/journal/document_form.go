package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// EncodeDocument writes a struct as the value of a document: a JSON object whose first member, "pawl", is the version
// of its form.
func EncodeDocument(version int, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(text) < 2 || text[0] != '{' {
		return nil, fmt.Errorf("journal: a %T is no JSON object", v)
	}
	out := append(make([]byte, 0, len(text)+12), `{"pawl":`...)
	out = strconv.AppendInt(out, int64(version), 10)
	if text[1] != '}' {
		out = append(out, ',')
	}
	return append(out, text[1:]...), nil
}

// DecodeDocument reads what EncodeDocument wrote with the same version.
func DecodeDocument(value []byte, version int, v any) error {
	var head struct {
		Version int `json:"pawl"`
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return err
	}
	if head.Version != version {
		return fmt.Errorf("it is of form %d, this version of Pawl knows form %d: use the version that has written it",
			head.Version, version)
	}
	return json.Unmarshal(value, v)
}
