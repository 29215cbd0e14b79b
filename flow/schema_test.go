package flow

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// TestSchemaKnowsEveryKey holds the schema against the keys that the parser knows, both ways.
func TestSchemaKnowsEveryKey(t *testing.T) {
	var root struct {
		Properties map[string]json.RawMessage
		Defs       map[string]struct {
			Properties map[string]struct{ Description string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	limits := make([]string, len(policy.StepLimits))
	for i, kind := range policy.StepLimits {
		limits[i] = kind.String()
	}
	tables := map[string][]string{
		"settings": settingsKeys, "service": serviceKeys, "step": stepKeys, "hooks": hookKeys, "hookStep": hookStepKeys,
		"runLimits": runLimitKeys, "limitObject": limitKeys, "deadlineObject": deadlineKeys, "retryObject": retryKeys,
		"execObject": execKeys, "execSettings": execSettingsKeys, "containerObject": containerKeys,
		"httpObject":   httpKeys,
		"httpSettings": httpSettingsKeys, "mail": mailKeys,
		"taskObject": taskKeys, "sleepObject": sleepKeys, "waitObject": waitKeys, "waitFirstObject": firstKeys,
		"flowObject":  flowKeys,
		"queueLimits": queueKeys, "breaker": breakerKeys, "runQueueObject": runQueueKeys,
		"template": templateKeys, "notify": notifyKeys, "parameter": parameterKeys,
		"failObject": failKeys, "noopObject": noopKeys, "limits": limits, "cronObject": cronKeys,
		"matrix": {matrixInclude, matrixExclude},
	}
	compare := func(name string, schema, parser []string) {
		slices.Sort(schema)
		parser = slices.Sorted(slices.Values(parser))
		if !slices.Equal(schema, parser) {
			t.Errorf("%s: the schema has %v, the parser %v", name, schema, parser)
		}
	}
	var top []string
	for key := range root.Properties {
		top = append(top, key)
	}
	compare("flow", top, documentKeys)
	for name, def := range root.Defs {
		if def.Properties == nil {
			continue
		}
		var keys []string
		for key, p := range def.Properties {
			keys = append(keys, key)
			if p.Description == "" {
				t.Errorf("%s.%s has no description", name, key)
			}
		}
		if tables[name] == nil {
			t.Errorf("%s is not held against the parser", name)
		}
		compare(name, keys, tables[name])
	}
}

// TestSchemaAcceptsWhatParses checks that the schema marks nothing in an editor that Pawl runs.
func TestSchemaAcceptsWhatParses(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("flow.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("flow.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range append(goodFlows(t), orderFlow) {
		r := &tree.Reports{Source: tree.NewSource("flow.yaml", src)}
		n := tree.Parse(r, src)
		if n == nil {
			t.Fatal(r.Err())
		}
		if err := compiled.Validate(forSchema(n.Any())); err != nil {
			t.Errorf("%v\n%s", err, src)
		}
	}
}
