package journal

import (
	"strings"
	"testing"
)

// TestDocumentForms checks that a document of another form says which one it has, which one is known, and what to do.
func TestDocumentForms(t *testing.T) {
	type one struct {
		A string `json:"a,omitempty"`
	}
	for v, want := range map[one]string{{}: `{"pawl":1}`, {"b"}: `{"pawl":1,"a":"b"}`} {
		value, err := EncodeDocument(1, v)
		if err != nil || string(value) != want {
			t.Errorf("%s, %v; want %s", value, err, want)
		}
		var got one
		if err := DecodeDocument(value, 1, &got); err != nil || got != v {
			t.Errorf("%+v, %v; want %+v", got, err, v)
		}
	}
	if _, err := EncodeDocument(1, 7); err == nil {
		t.Error("a number is a document")
	}
	for text, want := range map[string]string{
		`{"a":"b"}`:          "it is of form 0, this version of Pawl knows form 1: use the version that has written it",
		`{"pawl":2,"a":"b"}`: "it is of form 2, this version of Pawl knows form 1: use",
		`{"pawl":1,"a":7}`:   "cannot unmarshal number", `{"paw`: "unexpected end",
	} {
		var got one
		if err := DecodeDocument([]byte(text), 1, &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}
