package flow

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the document format, for editors. What it accepts Parse may still
// refuse: needs, names and expressions are beyond a schema.
func Schema() []byte { return bytes.Clone(schema) }
