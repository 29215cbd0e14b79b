package steep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
)

// TestConvert converts the documents of testdata/convert: a workflow, its services after a line of ---, and macros after
// another. `go test ./dialect/steep -rewrite` writes what becomes of them anew.
func TestConvert(t *testing.T) {
	datadriven.Walk(t, "testdata/convert", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			c, err := Convert(sources(d.Input))
			if err != nil {
				return strings.TrimRight(err.Error(), "\n") + "\n"
			}
			return write(t, c)
		})
	})
}

func sources(text string) Sources {
	parts := append(strings.Split(text, "\n---\n"), "", "")
	src := Sources{Workflow: Source{"workflow.yaml", []byte(parts[0])}, Services: Source{"services.yaml", []byte(parts[1])}}
	if parts[2] != "" {
		src.Macros = Source{"macros.yaml", []byte(parts[2])}
	}
	return src
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
			t.Errorf("what was written is not valid: %v", err)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(text)
	}
	return b.String()
}

func example(t testing.TB) Sources {
	t.Helper()
	read := func(name string) Source {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "dialects", "steep", name))
		if err != nil {
			t.Fatal(err)
		}
		return Source{name, text}
	}
	return Sources{Workflow: read("workflow.yaml"), Services: read("services.yaml")}
}

// FuzzConvert gives it broken documents: no panic, and what is converted can be written and read again.
func FuzzConvert(f *testing.F) {
	src := example(f)
	f.Add(string(src.Workflow.Text), string(src.Services.Text), "")
	f.Add("api: 4.0.0\nactions: [{type: include, macro: m}]", "[]", "- {id: m, actions: [{type: include, macro: m}]}")
	f.Add(`{"api":"4.7.0","retries":{"processChains":{"maxAttempts":2}},"vars":[{"id":"a","value":[1,[true]]}],"actions":[{"type":"for","input":"a","enumerator":"e","actions":[]}]}`, "[]", "")
	f.Fuzz(func(t *testing.T, workflow, services, macros string) {
		src := Sources{Workflow: Source{"w", []byte(workflow)}, Services: Source{"s", []byte(services)}}
		if macros != "" {
			src.Macros = Source{"m", []byte(macros)}
		}
		c, err := Convert(src)
		var errs flow.Errors
		switch {
		case err == nil:
			write(t, c)
		case !errors.As(err, &errs):
			t.Error(err)
		}
	})
}

// large is a workflow of n actions: chains of five, each reading what the one before wrote, joined at the end.
func large(n int) Sources {
	var b, vars, last strings.Builder
	for i := range n - 1 {
		input := "{id: in, value: x}"
		if i%5 > 0 {
			input = fmt.Sprintf("{id: in, var: v%d}", i-1)
		}
		fmt.Fprintf(&vars, "  - id: v%d\n", i)
		fmt.Fprintf(&b, "  - type: execute\n    id: a%d\n    service: s\n    inputs: [%s]\n    outputs: [{id: out, var: v%d}]\n", i, input, i)
		if i%100 == 99 {
			fmt.Fprintf(&last, "{id: in, var: v%d}, ", i)
		}
	}
	workflow := "api: 4.7.0\nname: large\nvars:\n" + vars.String() + "actions:\n" + b.String() +
		"  - {type: execute, id: last, service: s, inputs: [" + strings.TrimSuffix(last.String(), ", ") + "]}\n"
	services := `
- {id: s, name: S, description: d, path: ./s, runtime: other, retries: {maxAttempts: 3, delay: 1s}, maxRuntime: 5m, parameters: [
    {id: in, name: I, description: d, type: input, cardinality: 1..n}, {id: out, name: O, description: d, type: output, cardinality: 0..1}]}
`
	return Sources{Workflow: Source{"workflow.yaml", []byte(workflow)}, Services: Source{"services.yaml", []byte(services)}}
}

func TestLarge(t *testing.T) {
	c, err := Convert(large(500))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(c.Flow.Steps); got != 500 {
		t.Errorf("%d steps", got)
	}
	write(t, c)
}

// BenchmarkConvert5000 converts and writes a workflow of 5,000 actions.
func BenchmarkConvert5000(b *testing.B) {
	src := large(5000)
	b.ReportAllocs()
	for b.Loop() {
		c, err := Convert(src)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := flow.Encode(c.Flow); err != nil {
			b.Fatal(err)
		}
	}
}
