package history

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-dev/pawl/internal/core"
)

// corpusFile has runs: the entries of each, and the events that they have become. Workers replay those events, so what
// stands there may not change. For runs that show something new:
//
//	go test ./internal/temporal -run 'TestTranscripts|TestWholeRuns' -runs /tmp/runs
//	go test ./internal/temporal/history -run TestCorpus -add /tmp/runs
const corpusFile = "testdata/corpus"

var add = flag.String("add", "", "a file with runs to take into the corpus, where they show something new")

// corpusRun is a run of the corpus.
type corpusRun struct {
	line    int
	id      core.RunID
	entries []core.Entry
	events  [][]byte
	text    []string
}

func readCorpus(t *testing.T, path string) (runs []*corpusRun) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		what, text, _ := strings.Cut(lines.Text(), " ")
		if what == "run" {
			id, err := core.ParseRunID(text)
			if err != nil {
				t.Fatalf("%s:%d: %v", path, n, err)
			}
			runs = append(runs, &corpusRun{line: n, id: id, text: []string{lines.Text()}})
			continue
		}
		raw, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
		r := runs[len(runs)-1]
		r.text = append(r.text, lines.Text())
		if what == "event" {
			r.events = append(r.events, raw)
			continue
		}
		e, rest, err := core.ReadEntry(raw)
		if err != nil || len(rest) != 0 {
			t.Fatalf("%s:%d: %v, %d bytes too many", path, n, err, len(rest))
		}
		r.entries = append(r.entries, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return runs
}

// TestCorpus checks that the entries of the corpus fold to the same events, byte for byte, and that the corpus has each
// type of event, each attribute and each value of an enumeration that the fold can make.
func TestCorpus(t *testing.T) {
	covered := map[string]bool{}
	for _, r := range readCorpus(t, corpusFile) {
		for i, e := range r.check(t) {
			if i < len(r.events) {
				cover(covered, e.ProtoReflect())
			}
		}
	}
	if *add != "" {
		addToCorpus(t, covered)
	}
	for _, name := range made(t) {
		if !covered[name] {
			t.Errorf("no event of the corpus has %s", name)
		}
	}
}

// check folds the entries of a run, and compares the events with those that they became before.
func (r *corpusRun) check(t *testing.T) []*Event {
	t.Helper()
	f := New(r.id)
	for _, e := range r.entries {
		f.Add(e)
	}
	got := f.View(f.Entries)
	if len(got) != len(r.events) {
		t.Errorf("%s:%d: the run has %d events, and had %d", corpusFile, r.line, len(got), len(r.events))
	}
	for i, e := range got[:min(len(got), len(r.events))] {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(raw, r.events[i]) {
			was := &historypb.HistoryEvent{}
			_ = proto.Unmarshal(r.events[i], was) // bytes that cannot be read show as no event
			t.Errorf("%s:%d: event %d is\n%s\nand was\n%s", corpusFile, r.line, i+1, prototext.Format(e),
				prototext.Format(was))
		}
	}
	return got
}

// addToCorpus takes runs into the corpus that show something that no run has shown.
func addToCorpus(t *testing.T, covered map[string]bool) {
	t.Helper()
	file, err := os.OpenFile(corpusFile, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, r := range readCorpus(t, *add) {
		before := len(covered)
		for _, e := range r.check(t) {
			cover(covered, e.ProtoReflect())
		}
		if len(covered) > before {
			if _, err := file.WriteString(strings.Join(r.text, "\n") + "\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// cover notes the fields that a message has, and the values of enumerations.
func cover(covered map[string]bool, m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		covered[string(f.ContainingMessage().Name())+"."+goName(f)] = true
		switch {
		case f.IsList() || f.IsMap():
		case f.Enum() != nil:
			covered[string(f.Enum().Values().ByNumber(v.Enum()).Name())] = true
		case f.Message() != nil:
			cover(covered, v.Message())
		}
		return true
	})
}

// goName returns the name of a field in Go.
func goName(f protoreflect.FieldDescriptor) string {
	out := ""
	for word := range strings.SplitSeq(string(f.Name()), "_") {
		out += strings.ToUpper(word[:1]) + word[1:]
	}
	return out
}

// made returns the attributes of events, and the values of enumerations, that the code of the fold names.
func made(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				names = append(names, madeBy(f)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unseen are words that the code of the fold names, and that no event has.
var unseen = regexp.MustCompile(`^(COMMAND_TYPE_|WORKFLOW_EXECUTION_STATUS_)|_UNSPECIFIED$`)

// madeBy returns what a function names.
func madeBy(f *ast.FuncDecl) (names []string) {
	of := map[string]string{} // the messages that variables have
	for _, p := range f.Type.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok {
			if kind := message(star.X); kind != "" {
				of[p.Names[0].Name] = kind
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			from, ok := n.X.(*ast.Ident)
			if ok && from.Name == "enumspb" && n.Sel.Name == strings.ToUpper(n.Sel.Name) &&
				!unseen.MatchString(n.Sel.Name) {
				names = append(names, n.Sel.Name)
			}
		case *ast.CompositeLit:
			kind := message(n.Type)
			for _, field := range n.Elts {
				if pair, ok := field.(*ast.KeyValueExpr); ok && kind != "" {
					names = append(names, kind+"."+pair.Key.(*ast.Ident).Name)
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if into, ok := left.(*ast.Ident); ok && i < len(n.Rhs) {
					if made, ok := n.Rhs[i].(*ast.UnaryExpr); ok {
						if lit, ok := made.X.(*ast.CompositeLit); ok && message(lit.Type) != "" {
							of[into.Name] = message(lit.Type)
						}
					}
				}
				if name := assigned(left, of); name != "" {
					names = append(names, name)
				}
			}
		}
		return true
	})
	return names
}

// message returns the name of a type of attributes of an event; empty: it is another type.
func message(kind ast.Expr) string {
	of, ok := kind.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(of.Sel.Name, "EventAttributes") || strings.HasPrefix(of.Sel.Name, "HistoryEvent_") {
		return ""
	}
	return of.Sel.Name
}

// assigned returns the attribute that an assignment sets. of are the messages that variables have.
func assigned(left ast.Expr, of map[string]string) string {
	field, ok := left.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	kind := ""
	switch from := field.X.(type) {
	case *ast.Ident:
		kind = of[from.Name]
	case *ast.SelectorExpr:
		kind = from.Sel.Name
	case *ast.CallExpr:
		if get, ok := from.Fun.(*ast.SelectorExpr); ok {
			kind = strings.TrimPrefix(get.Sel.Name, "Get")
		}
	}
	if !strings.HasSuffix(kind, "EventAttributes") {
		return ""
	}
	return kind + "." + field.Sel.Name
}
