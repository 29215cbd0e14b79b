package stevora

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
// `go test ./dialect/stevora -rewrite` writes what becomes of them anew.
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

// TestLarge checks that the condition of a step does not grow with earlier conditions that lead elsewhere.
func TestLarge(t *testing.T) {
	const n = 400
	steps := ""
	for i := range n {
		steps += fmt.Sprintf(`{"type": "condition", "name": "c%d", "expression": "a.b", "trueStep": "c%d",
    "falseStep": "c%d"}, `, i, i+1, min(i+2, n))
	}
	document := `{"name": "large", "version": "1", "steps": [` + steps +
		fmt.Sprintf(`{"type": "task", "name": "c%d", "handler": "h"}]}`, n)
	c, err := Convert(Source{"doc.json", []byte(document)},
		Source{"handlers.yaml", []byte("handlers: {h: {exec: [./h]}}")})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := c.Flow.Steps[n-1].When.Text()
	if want := `steps["c397"].phase == "succeeded" && steps["c397"].output.next == "c399" || ` +
		`steps["c398"].phase == "succeeded" && steps["c398"].output.next == "c399"`; text != want {
		t.Error(text)
	}
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
	`{"name":"w","version":"1","steps":[{"type":"task","name":"a","handler":"call","config":{"k":1},
    "retry":{"maxAttempts":5}},{"type":"condition","name":"c","expression":"state.x.y","trueStep":"d","falseStep":"e"},
    {"type":"wait","name":"d","durationMs":5},{"type":"approval","name":"e","contentKey":"k","timeoutMs":5},
    {"type":"external_event","name":"f","signalType":"s"},{"type":"llm","name":"g","model":"m"}]}`,
}
