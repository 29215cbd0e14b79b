// Package formtest tests the words of other systems in flow files.
package formtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/dialect/internal/policytest"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/decode"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// Run reads the flows of a folder of transcripts and shows the native flow, with the fields that have no counterpart,
// or the place of an error. "settings" shows the limits of each step instead, and where they were configured.
func Run(t *testing.T, dir string) {
	t.Helper()
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			doc, err := flow.Parse("order.yaml", []byte(d.Input), dialect.Forms()...)
			if err != nil {
				return err.Error() + "\n"
			}
			if d.Cmd == "settings" {
				return settings(t, doc)
			}
			return converted(t, doc)
		})
	})
}

// converted writes a flow in native words and reads it back.
func converted(t testing.TB, doc *flow.Document) string {
	t.Helper()
	var b strings.Builder
	for _, n := range doc.Notes {
		fmt.Fprintf(&b, "note: %d:%d: %s\n", n.Pos.Line, n.Pos.Col, n.Msg)
	}
	text, err := flow.Encode(doc)
	if doc.Chain != nil { // the only information that native words lack
		if err == nil {
			t.Fatal("a chain of runs is written in native words")
		}
		return b.String() + err.Error() + "\n"
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := flow.Parse("native.yaml", text)
	if err != nil {
		t.Fatalf("what was written is not valid: %v\n%s", err, text)
	}
	if before, after := bound(t, doc, false), bound(t, again, false); before != after {
		t.Errorf("bound by\n%swhat was written by\n%s%s", before, after, text)
	}
	b.Write(text)
	return b.String()
}

func settings(t testing.TB, doc *flow.Document) string { return bound(t, doc, true) }

// bound lists what bounds the run and each step.
func bound(t testing.TB, doc *flow.Document, places bool) string {
	t.Helper()
	var b strings.Builder
	if l := doc.Limits; l.Execution != nil || l.Run != nil || doc.Retry != nil {
		fmt.Fprintf(&b, "run: %s", doc.Retry)
		for _, limit := range []*policy.Limit{l.Execution, l.Run} {
			if limit != nil {
				fmt.Fprintf(&b, "; %s", limit.After)
				if places {
					fmt.Fprintf(&b, " by %s", limit.Origin)
				}
			}
		}
		b.WriteString("\n")
	}
	def, err := flow.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range def.Specs {
		p := spec.Policy
		text := policytest.Summary(&p)
		if !places {
			text = strings.Join(slices.DeleteFunc(strings.Split(text, " "), func(word string) bool {
				return strings.Contains(word, ".yaml:") || word == "by"
			}), " ")
		}
		fmt.Fprintf(&b, "%s: %s", spec.Name, text)
		if spec.Queue != "" || spec.Priority != 0 {
			fmt.Fprintf(&b, "; queue %q, priority %d", spec.Queue, spec.Priority)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Fields compares the schema of a form with its reader: each must know the fields of the other.
func Fields(t *testing.T, form flow.Form) {
	t.Helper()
	var schema struct {
		Step, Run struct {
			Properties map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal(form.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func(any) error{
		"step": func(v any) error { _, _, err := form.Step(v, "exec"); return err },
		"run":  func(v any) error { _, _, err := form.Run(v); return err },
	} {
		properties := schema.Step.Properties
		if what == "run" {
			properties = schema.Run.Properties
		}
		for key, p := range properties {
			if p.Description == "" {
				t.Errorf("%s.%s of %s has no description", what, key, form.Key)
			}
			if err := read(map[string]any{key: nil}); err != nil {
				t.Errorf("%s.%s of %s stands in the schema, and is refused: %v", what, key, form.Key, err)
			}
		}
		var field *decode.Error
		if err := read(map[string]any{"no": "such key"}); !errors.As(err, &field) || !field.Key {
			t.Errorf("%s of %s: %v", what, form.Key, err)
		}
		for _, key := range knownKeys(t, read) {
			if _, ok := properties[key]; !ok {
				t.Errorf("%s.%s of %s is known, and not in the schema", what, key, form.Key)
			}
		}
	}
}

// Accepts holds the schema that editors use against the flows of a folder: no editor may mark what Pawl runs.
func Accepts(t *testing.T, dir string) {
	t.Helper()
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(flow.Schema(dialect.Forms()...)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("flow.json", root); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("flow.json")
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, src := range flows(t, dir) {
		if _, err := flow.Parse("order.yaml", src, dialect.Forms()...); err != nil {
			continue
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(tree.JSON(tree.Read("order.yaml", src).Root().Any())))
		if err != nil {
			t.Fatal(err)
		}
		accepted++
		if err := schema.Validate(v); err != nil {
			t.Errorf("%v\n%s", err, src)
		}
	}
	if accepted == 0 {
		t.Errorf("there is no flow")
	}
}

// flows returns the documents of the transcripts.
func flows(t testing.TB, dir string) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no flows: %v", err)
	}
	var out [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n----\n") {
			for _, begin := range []string{"\npawl: 1\n", "\n{\"pawl\""} {
				if at := strings.LastIndex(part, begin); at >= 0 {
					out = append(out, []byte(part[at+1:]))
				}
			}
		}
	}
	return out
}

// knownKeys reads the known keys out of the error for an unknown one.
func knownKeys(t *testing.T, read func(any) error) []string {
	t.Helper()
	_, list, ok := strings.Cut(read(map[string]any{"?": 1}).Error(), "; use ")
	if !ok {
		t.Fatal("the refusal of an unknown key does not list those that are known")
	}
	return strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
}

// Fuzz reads any text in the words of a form: it does not panic, every error has its place, and an accepted text can be
// written in native words with the same limits.
func Fuzz(f *testing.F, dir string) {
	f.Helper()
	for _, src := range flows(f, dir) {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := flow.Parse("fuzz.yaml", src, dialect.Forms()...)
		if err == nil {
			converted(t, doc)
			return
		}
		var all tree.Errors
		if !errors.As(err, &all) {
			t.Fatalf("%T is not flow.Errors: %v", err, err)
		}
		for _, e := range all {
			if e.Line < 1 || e.Col < 1 {
				t.Errorf("no place: %v", e)
			}
		}
	})
}
