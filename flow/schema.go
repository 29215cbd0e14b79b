package flow

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the document format, for editors, with the words of other systems
// where they are allowed. What it accepts Parse may still refuse: needs, names and expressions are beyond a schema.
func Schema(forms ...Form) []byte {
	if len(forms) == 0 {
		return bytes.Clone(schema)
	}
	type object = map[string]any
	var root object
	must(json.Unmarshal(schema, &root))
	defs := root["$defs"].(object)
	for _, form := range forms {
		var own struct{ Step, Run any }
		must(json.Unmarshal(form.Schema, &own))
		defs[form.Key], defs[form.Key+"Run"] = own.Step, own.Run
		root["properties"].(object)[form.Key] = object{"$ref": "#/$defs/" + form.Key + "Run"}
		for _, name := range []string{"settings", "service", "step", "hookStep"} {
			defs[name].(object)["properties"].(object)[form.Key] = object{"$ref": "#/$defs/" + form.Key}
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	must(enc.Encode(root))
	return out.Bytes()
}

// must panics on an error of a text in the program itself.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("flow: schema: %v", err))
	}
}
