package steep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/dialect"
	"github.com/pawl-dev/pawl/flow"
	"github.com/pawl-dev/pawl/internal/tree"
)

// TestConvert converts the documents of testdata/convert: a workflow, its services after a line of ---, and macros
// after another. `go test ./dialect/steep -rewrite` writes what becomes of them anew.
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

// TestFrontMatter checks that a file of services may begin with front matter, whose fields and places are kept; a
// template is refused.
func TestFrontMatter(t *testing.T) {
	services := "- {id: s, path: ./s, runtime: other, parametres: []}\n"
	for front, want := range map[string]string{
		"---\ntemplate: true\n---\n": "services.yaml:2:11: the file is a template, " +
			"which Pawl does not fill in",
		"\n---\n# of it\ntemplate: On\n---\n": "services.yaml:4:11: the file is a template",
		"---\ntemplate: false\n---\n":         "services.yaml:4:38: a service has no key \"parametres\"",
		"---\nauthor: ada\n----\n":            "services.yaml:4:38: a service has no key",
		"---\n":                               "services.yaml:2:38: a service has no key",
		"---\n- {id: t}\n---\n":               "services.yaml:4:1: a second document in one file",
	} {
		_, err := Convert(Sources{
			Workflow: Source{"workflow.yaml", []byte("api: 4.7.0\nactions: [{type: execute, service: s}]\n")},
			Services: []Source{{"services.yaml", []byte(front + services)}},
		})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q is refused with %v\nwant %s", front, err, want)
		}
	}
}

// TestFiles checks that services and macros may be in several files, each once.
func TestFiles(t *testing.T) {
	src := Sources{
		Workflow: Source{"workflow.yaml", []byte("api: 4.7.0\nactions: [{type: include, macro: b}]\n")},
		Services: []Source{
			{"one.yaml", []byte("- {id: s, path: ./s, runtime: other}\n")},
			{"two.yaml", []byte("- {id: t, path: ./t, runtime: other}\n")},
		},
		Macros: []Source{
			{"a.yaml", []byte("- {id: a, actions: [{type: execute, service: t}]}\n")},
			{"b.yaml", []byte("- {id: b, actions: [{type: include, macro: a}]}\n")},
		},
	}
	c, err := Convert(src)
	if err != nil || len(c.Flow.Steps) != 1 || c.Flow.Steps[0].Name != "b.a.t" {
		t.Fatalf("%+v %v", c, err)
	}
	src.Services = append(src.Services, src.Services[0])
	src.Services[2].Name = "again.yaml"
	if _, err := Convert(src); err == nil || !strings.HasPrefix(err.Error(),
		"again.yaml:1:8: there already is a service \"s\", at one.yaml:1:8") {
		t.Error(err)
	}
}

// TestBounds checks that a document that would expand or nest too far is refused at the place where that begins.
func TestBounds(t *testing.T) {
	deep := "[]"
	for i := range maxNesting + 2 {
		deep = fmt.Sprintf("[{type: for, input: v, enumerator: e%d, actions: %s}]", i, deep)
	}
	wide := "- {id: m0, actions: [{type: execute, service: s}, {type: execute, service: s}]}\n"
	for i := range 20 {
		wide += fmt.Sprintf("- {id: m%d, actions: [{type: include, macro: m%d}, {type: include, macro: m%d}]}\n", i+1,
			i, i)
	}
	for want, actions := range map[string]string{
		"for actions are nested more than 20 deep":     deep,
		"the macros expand to more than 20000 actions": "[{type: include, macro: m20}]",
	} {
		_, err := Convert(Sources{
			Workflow: Source{
				"workflow.yaml",
				[]byte("api: 4.7.0\nvars: [{id: v, value: 1}]\nactions: " + actions + "\n"),
			},
			Services: []Source{{"services.yaml", []byte("- {id: s, path: ./s, runtime: other}\n")}},
			Macros:   []Source{{"macros.yaml", []byte(wide)}},
		})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".yaml:") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func sources(text string) Sources {
	parts := append(strings.Split(text, "\n---\n"), "", "")
	src := Sources{
		Workflow: Source{"workflow.yaml", []byte(parts[0])},
		Services: []Source{{"services.yaml", []byte(parts[1])}},
	}
	if parts[2] != "" {
		src.Macros = []Source{{"macros.yaml", []byte(parts[2])}}
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
	return Sources{Workflow: read("workflow.yaml"), Services: []Source{read("services.yaml")}}
}

// FuzzConvert gives it broken documents: no panic, and what is converted can be written and read again.
func FuzzConvert(f *testing.F) {
	src := example(f)
	f.Add(string(src.Workflow.Text), string(src.Services[0].Text), "")
	f.Add("api: 4.0.0\nactions: [{type: include, macro: m}]", "[]", "- {id: m, actions: [{type: include, macro: m}]}")
	f.Add(`{"api":"4.7.0","retries":{"processChains":{"maxAttempts":2}},"vars":[{"id":"a","value":[1,[true]]}],
    "actions":[{"type":"for","input":"a","enumerator":"e","actions":[]}]}`, "[]", "")
	f.Fuzz(func(t *testing.T, workflow, services, macros string) {
		src := Sources{Workflow: Source{"w", []byte(workflow)}, Services: []Source{{"s", []byte(services)}}}
		if macros != "" {
			src.Macros = []Source{{"m", []byte(macros)}}
		}
		c, err := Convert(src)
		var errs tree.Errors
		switch {
		case err == nil:
			write(t, c)
		case !errors.As(err, &errs):
			t.Error(err)
		}
	})
}

// large returns a workflow of n actions: chains of five, each reading the output of the one before, joined at the
// end.
func large(n int) Sources {
	var b, vars, last strings.Builder
	for i := range n - 1 {
		input := "{id: in, value: x}"
		if i%5 > 0 {
			input = fmt.Sprintf("{id: in, var: v%d}", i-1)
		}
		fmt.Fprintf(&vars, "  - id: v%d\n", i)
		id := ""
		if i%3 > 0 { // the others are named after the service
			id = fmt.Sprintf("    id: a%d\n", i)
		}
		fmt.Fprintf(&b, "  - type: execute\n%s    service: s\n    inputs: [%s]\n    outputs: [{id: out, var: v%d}]\n",
			id, input, i)
		if i%100 == 99 {
			fmt.Fprintf(&last, "{id: in, var: v%d}, ", i)
		}
	}
	workflow := "api: 4.7.0\nname: large\nvars:\n" + vars.String() + "actions:\n" + b.String() +
		"  - {type: execute, id: last, service: s, inputs: [" + strings.TrimSuffix(last.String(), ", ") + "]}\n"
	services := `
- {id: s, name: S, description: d, path: ./s, runtime: other, retries: {maxAttempts: 3, delay: 1s}, maxRuntime: 5m,
    parameters: [
    {id: in, name: I, description: d, type: input, cardinality: 1..n},
        {id: out, name: O, description: d, type: output, cardinality: 0..1}]}
`
	return Sources{
		Workflow: Source{"workflow.yaml", []byte(workflow)},
		Services: []Source{{"services.yaml", []byte(services)}},
	}
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

// TestGrowth checks that the work of a conversion grows as the workflow does, however its actions hang together.
func TestGrowth(t *testing.T) {
	services := Source{"services.yaml", []byte(`
- {id: s, path: ./s, runtime: other, parameters: [
    {id: in, type: input, cardinality: 0..n}, {id: out, type: output, cardinality: 0..1}]}
`)}
	for name, reads := range map[string]func(i int) []int{
		"the two before": func(i int) []int { return []int{i - 2, i - 1} },
		"diamonds":       func(i int) []int { return []int{i - 1, i - 1 - max(i, 0)%3/2} },
		"a comb":         func(i int) []int { return []int{i - 1 - i%2} },
	} {
		work := func(n int) float64 {
			var b strings.Builder
			b.WriteString("api: 4.7.0\nactions:\n")
			for i := range n {
				b.WriteString("- {type: execute, service: s, inputs: [")
				for _, j := range slices.Compact(reads(i)) {
					if j >= 0 && j < i {
						fmt.Fprintf(&b, "{id: in, var: v%d}, ", j)
					}
				}
				fmt.Fprintf(&b, "], outputs: [{id: out, var: v%d}]}\n", i)
			}
			src := Sources{Workflow: Source{"workflow.yaml", []byte(b.String())}, Services: []Source{services}}
			return testing.AllocsPerRun(1, func() {
				if _, err := Convert(src); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := work(200), work(800); many > 5*few {
			t.Errorf("%s: %.0f allocations for 200 actions, %.0f for 800", name, few, many)
		}
	}
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

// one converts a workflow of actions over services a and b, which read and write files.
func one(actions string) (*dialect.Conversion, error) {
	return Convert(Sources{
		Workflow: Source{"workflow.yaml", []byte("api: 4.7.0\nname: w\n" + actions)},
		Services: []Source{{"services.yaml", []byte(`
- {id: s, path: ./s, runtime: other, parameters: [
    {id: in, type: input, cardinality: 0..n}, {id: out, type: output, cardinality: 0..1}]}
- {id: dir, path: ./dir, runtime: other, parameters: [
    {id: in, type: input, cardinality: 0..n}, {id: out, type: output, cardinality: 0..1, dataType: directory}]}
`)}},
	})
}

// TestQuoted checks that a number, true or false may be written as a text, as Steep's reader takes it.
func TestQuoted(t *testing.T) {
	for field, want := range map[string]bool{
		`retries: {maxAttempts: "3"}`: true, `retries: {maxAttempts: " 3 "}`: true,
		`retries: {maxAttempts: "1.5"}`: false, `retries: {maxAttempts: ""}`: false,
		`retries: {maxAttempts: "x"}`:        false,
		`retries: {exponentialBackoff: "2"}`: true, `retries: {exponentialBackoff: "1.5"}`: false,
		`maxRuntime: {timeout: 5s, errorOnTimeout: "true"}`: true,
		`maxRuntime: {timeout: 5s, errorOnTimeout: "TRUE"}`: true,
		`maxRuntime: {timeout: 5s, errorOnTimeout: "yes"}`:  false,
		`maxRuntime: {timeout: 5s, errorOnTimeout: ""}`:     false,
		`outputs: [{id: out, var: v, store: "True"}]`:       true,
		`outputs: [{id: out, var: v, store: "yes"}]`:        false,
		`outputs: [{id: out, var: v, store: ""}]`:           false,
	} {
		if _, err := one("actions: [{type: execute, service: s, " + field + "}]\n"); (err == nil) != want {
			t.Errorf("%s: %v", field, err)
		}
	}
	for priority, want := range map[string]bool{
		`"7"`: true, `" 7 "`: true, `"1.5"`: false, `"yes"`: false, `""`: false,
	} {
		c, err := one("priority: " + priority + "\nactions: [{type: execute, service: s}]\n")
		if (err == nil) != want || want && *c.Flow.Defaults.Priority != 7 {
			t.Errorf("priority %s: %v", priority, err)
		}
	}
}

// TestInline checks that a variable may be declared where it is used, once.
func TestInline(t *testing.T) {
	c, err := one(`actions:
  - {type: execute, id: b, service: s, inputs: [{id: in, var: made}, {id: in, var: {id: text, value: hello}}]}
  - {type: execute, id: a, service: s, inputs: [{id: in, var: text}], outputs: [{id: out, var: {id: made}}]}
  - {type: for, input: {id: list, value: [x, y]}, enumerator: {id: e}, actions: [
      {type: execute, id: each, service: s, inputs: [{id: in, var: e}]}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if text := write(t, c); strings.Count(text, "hello") != 2 || !strings.Contains(text, `forEach: [x, "y"]`) {
		t.Error(text)
	}
	_, err = one(`actions:
  - {type: execute, service: s, inputs: [{id: in, var: {id: text, value: hello}}]}
  - {type: execute, service: s, inputs: [{id: in, var: {id: text, value: world}}]}
`)
	if err == nil || !strings.Contains(err.Error(), `"text" is used on line 4 already`) {
		t.Error(err)
	}
	_, err = one("actions: [{type: execute, service: s, outputs: [{id: out, var: {id: v, value: 1}}]}]\n")
	if err == nil || !strings.Contains(err.Error(), `the output variable "v" has a value`) {
		t.Error(err)
	}
}

// TestFolderInChain checks that a folder that an action of the same process chain reads is handed over as its path; any
// other reader gets the files in it.
func TestFolderInChain(t *testing.T) {
	c, err := one(`actions:
  - {type: execute, id: make, service: dir, outputs: [{id: out, var: folder}]}
  - {type: execute, id: use, service: s, inputs: [{id: in, var: folder}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if text := write(t, c); strings.Contains(text, "folder.files") || !strings.Contains(text,
		"[./s, \"${{ input.tmpPath }}/${{ run.id }}/make.out\"]") {
		t.Error(text)
	}
	c, err = one(`actions:
  - {type: execute, id: make, service: dir, outputs: [{id: out, var: folder}]}
  - {type: execute, id: use, service: s, inputs: [{id: in, var: folder}]}
  - {type: execute, id: too, service: s, inputs: [{id: in, var: folder}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	if text := write(t, c); strings.Count(text, "name: folder.files") != 1 || strings.Count(text,
		"needs: [folder.files]") != 2 {
		t.Error(text)
	}
}
