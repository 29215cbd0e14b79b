package aether

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// TestConvert converts the documents of testdata/convert, each with its handlers after a line of ---.
// `go test ./dialect/aether -rewrite` writes what becomes of them anew.
func TestConvert(t *testing.T) {
	datadriven.Walk(t, "testdata/convert", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			document, handlers, _ := strings.Cut(d.Input, "\n---\n")
			c, err := Convert(Source{"doc.json", []byte(document)}, Source{"handlers.yaml", []byte(handlers)})
			if err != nil {
				return strings.TrimRight(err.Error(), "\n") + "\n"
			}
			return write(t, c)
		})
	})
}

// TestErrorsHaveAnOrder checks that errors at one place come in the same order each time.
func TestErrorsHaveAnOrder(t *testing.T) {
	document := `{"apiVersion":"aether/v1","kind":"Workflow","metadata":{"name":"w"},"spec":{"entrypoint":"main",
    "templates":[
{"task":{"name":"main","executor":{"type":"e","config":{"a":"{{x.a}}","b":"{{x.b}}","c":"{{x.c}}","d":"{{x.d}}"}}}}]}}`
	for range 20 {
		_, err := Convert(Source{"d", []byte(document)}, Source{"h", []byte("handlers: {e: {exec: [./e]}}")})
		at := -1
		for _, name := range []string{"x.a", "x.b", "x.c", "x.d"} {
			next := strings.Index(fmt.Sprint(err), `"`+name+`" does not name`)
			if next <= at {
				t.Fatalf("%s stands at %d, the one before at %d:\n%v", name, next, at, err)
			}
			at = next
		}
	}
}

func write(t testing.TB, c *dialect.Conversion) string {
	t.Helper()
	var b strings.Builder
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for i, doc := range append([]*flow.Document{c.Flow}, c.Children...) {
		text, err := flow.Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := flow.Parse(doc.Name+".yaml", text); err != nil {
			t.Errorf("what was written is not valid: %v\n%s", err, text)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(text)
	}
	return b.String()
}

// FuzzConvert gives it broken documents: no panic, and what is converted can be written and read again.
func FuzzConvert(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed,
			"handlers: {echo: {exec: [./x]}, call: {http: url}, llm: {task: {type: T}}, w: {wait: {}}, "+
				"sub: {flow: inner}}")
	}
	f.Fuzz(func(t *testing.T, document, handlers string) {
		c, err := Convert(Source{"d", []byte(document)}, Source{"h", []byte(handlers)})
		var errs tree.Errors
		switch {
		case err == nil:
			write(t, c)
		case !errors.As(err, &errs):
			t.Error(err)
		}
	})
}

var seeds = []string{
	`{"apiVersion":"aether/v1","kind":"Workflow","metadata":{"name":"w"},"spec":{"entrypoint":"main","timeout":"30m",
    "priority":5,"templates":[{"dag":{"name":"main","tasks":[{"name":"a","template":"t","retry":{"limit":3,
    "expression":"tasks.a.phase != 'Succeeded'"}},{"name":"b","template":"l","dependencies":["a"],
    "when":"tasks.a.outputs.parameters.x == 1"},{"name":"c","template":"inner","continueOn":{"failed":true}}]}},
    {"task":{"name":"t","executor":{"type":"echo","config":{"k":"{{workflow.arguments.parameters.y}}"}}}},
    {"loop":{"name":"l","items":[1],"body":"t"}},{"dag":{"name":"inner","tasks":[{"name":"z","executor":{"type":"w"}}],
    "outputs":{"parameters":[{"name":"r","valueFrom":{"parameter":"tasks.z.outputs.parameters.q"}}]}}}],
    "hooks":{"onExit":{"template":"t"}}}}`,
	`{"apiVersion":"aether/v1","kind":"Workflow","metadata":{"name":"w"},"spec":{"entrypoint":"l",
    "templates":[{"loop":{"name":"l","repeatCondition":"loop_iter.index != 2","maxIterations":9,"body":"t"}},
    {"task":{"name":"t","executor":{"type":"sub"}}},{"dag":{"name":"inner","tasks":[{"name":"z","template":"l"}]}}]}}`,
}
