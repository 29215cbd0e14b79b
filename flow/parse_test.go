package flow

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/internal/nightly"
	"github.com/pawl-dev/pawl/internal/tree"
	"github.com/pawl-dev/pawl/policy"
)

// TestErrors reads documents from transcripts and shows what is said about them: `go test ./flow -rewrite` writes them
// anew.
func TestErrors(t *testing.T) {
	datadriven.Walk(t, "testdata/errors", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			name := "order.yaml"
			d.MaybeScanArgs(t, "name", &name)
			doc, err := ParseFiles(name, []byte(d.Input), func(path string) ([]byte, error) {
				return os.ReadFile(filepath.Join("testdata", path))
			})
			if err != nil {
				return err.Error() + "\n"
			}
			var b strings.Builder
			fmt.Fprintf(&b, "ok: %s, %d steps\n", doc.Name, len(doc.Steps))
			if d.Cmd == "lint" {
				for _, f := range append(Lint(doc, lintedAt), LintNodes(doc)...) {
					b.WriteString(f.String() + "\n")
				}
			}
			return b.String()
		})
	})
}

// lintedAt is when the documents of the tests are looked at.
var lintedAt = policy.At(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC))

func TestErrorsAreCapped(t *testing.T) {
	src := "pawl: 1\nname: x\nsteps:\n" + strings.Repeat("  - nam: x\n    noop:\n", 50)
	_, err := Parse("order.yaml", []byte(src))
	var all tree.Errors
	if !errors.As(err, &all) || len(all) != tree.MaxErrors {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(all[len(all)-1].Msg, "in all") {
		t.Fatalf("last error: %v", all[len(all)-1])
	}
}

// TestHostileDocuments checks that small documents that would blow up are refused at once.
func TestHostileDocuments(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("pawl: 1\nname: x\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		ref := fmt.Sprintf("*a%d", i-1)
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i,
			strings.Join([]string{ref, ref, ref, ref, ref, ref, ref, ref, ref, ref}, ", "))
	}
	many := nightly.Few(1<<16, 1<<20)
	for name, src := range map[string]string{
		"aliases":       bomb.String(),
		"brackets":      "a: " + strings.Repeat("[", many),
		"braces":        strings.Repeat(`{"a":`, many),
		"entries":       strings.Repeat("- ", many),
		"keys":          strings.Repeat("? ", many),
		"tags":          "a: " + strings.Repeat("!!str ", many/2),
		"anchors":       "a: " + strings.Repeat("&a ", many),
		"parentheses":   "pawl: 1\nname: x\nsteps:\n  - {name: a, noop: , when: '" + strings.Repeat("(", many) + "'}",
		"large mapping": "pawl: 1\n" + strings.Repeat("a:\n", many),
		"large flow":    "a: {" + strings.Repeat("a: b, ", many/2) + "}",
		"merges":        "pawl: 1\n" + strings.Repeat("<<: {a: 1}\n", many/8),
		"broken JSON":   `{"pawl": 1, "x": ` + strings.Repeat("[1],", many/4),
		"self":          "pawl: 1\nname: &a [*a]\n",
		"bytes":         strings.Repeat("\x00", 1000),
		"byte order":    "\ufeff",
		"nothing":       "",
		"two documents": "pawl: 1\n---\npawl: 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(name, []byte(src)); err == nil {
				t.Fatal("no error")
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(orderFlow))
	f.Add([]byte("{\"pawl\": 1, \"name\": \"x\", \"steps\": [{\"name\": \"a\", \"noop\": {\"output\": " +
		"\"${{ input.a }}\"}}]}"))
	f.Add([]byte("pawl: 1\nname: x\nsteps:\n  - name: a\n    forEach: [1, 2]\n    noop: {output: \"${{ item }}\"}\n"))
	f.Add([]byte("a: |\n  ${{ x }}\n"))
	f.Add([]byte("a: &x [*x]\n<<: {b: c}\n? d\n: e\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := Parse("fuzz.yaml", src)
		if err != nil {
			_ = err.Error()
			return
		}
		if _, err := Compile(doc); err != nil {
			t.Fatalf("parsed, but: %v", err)
		}
		_ = Lint(doc, lintedAt)
	})
}

const orderFlow = `# the flow of the documentation
pawl: 1
name: order
input:
  type: object
  required: [orderId]
  properties: {orderId: {type: string}, copies: {type: integer, default: 2}}
timeout: 30m
retry: none
defaults: {retry: {maxAttempts: 3}, timeout: {startToClose: 1m}}
services:
  payments: {retry: "exponential(5, 1s, max=30s, jitter=0.25)", timeout: {startToClose: 10s, scheduleToClose: 5m}}
steps:
  - name: charge
    service: payments
    http: {method: POST, url: "https://pay.example/charges", json: {order: "${{ input.orderId }}"}}
  - name: render
    needs: [charge]
    exec: {command: [./render.sh, "${{ input.orderId }}"], env: {TXN: "${{ steps.charge.output.json.id }}"}, grace: 5s}
    timeout: {inactivity: 2m, startToClose: 20m, deadline: {after: 1h, onExpire: cancel}}
    retry: {maxAttempts: 4, initialInterval: 2s, when: "code != 2 && attempt < 3"}
  - name: approval
    needs: [render]
    wait: {event: approved}
    timeout: 7d
    continueOn: [timeout]
  - name: pages
    needs: [render]
    forEach: "${{ steps.render.output.pages }}"
    concurrency: 8
    exec: {command: [./publish.sh, "${{ item }}"]}
  - name: notify
    needs: [approval, pages]
    when: "steps.approval.phase == 'succeeded'"
    task: {queue: mail, type: SendReceipt, input: {order: "${{ input.orderId }}"}}
  - name: settle
    needs: [notify]
    sleep: 1h
  - name: audit
    needs: [settle]
    flow: {name: audit, input: {order: "${{ input.orderId }}"}}
hooks:
  onFailure: {exec: "echo ${{ q(failure.message) }}"}
  onExit: {noop: {output: "${{ run.phase }}"}}
output: {receipt: "${{ steps.notify.output.id }}"}
`

func mustParse(t testing.TB, src string) *Document {
	t.Helper()
	doc, err := Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// goodFlows returns the flows of the run transcripts.
func goodFlows(t testing.TB) []string {
	t.Helper()
	var flows []string
	paths, err := filepath.Glob("testdata/runs/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "\nrun\n")[1:] {
			src, _, _ := strings.Cut(part, "\n---")
			flows = append(flows, src+"\n")
		}
	}
	return flows
}

// TestTasksHaveTypesOfWorkers checks that a document that was made by a program has no place for a task either that
// Pawl itself does.
func TestTasksHaveTypesOfWorkers(t *testing.T) {
	doc := &Document{Name: "made", Steps: []*Step{{Name: "a", Action: &Task{Type: "exec", Input: V("x")}}}}
	if _, err := Compile(doc); err == nil || !strings.Contains(err.Error(), `the type "exec" of a task is Pawl's own`) {
		t.Errorf("the error is %v", err)
	}
}
