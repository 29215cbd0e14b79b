package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A banned word has a better one in words.txt.
type banned struct {
	word  string
	use   string // the word in its place
	names bool   // banned in names only, since it is ordinary English in a sentence
}

// TestWords finds words in names and comments that words.txt replaces by others: one word for one thing.
func TestWords(t *testing.T) {
	words := bannedWords(t)
	inComments := regexp.MustCompile(`(?i)\b(` + strings.Join(slices.Sorted(maps.Keys(words)), "|") + `)\b`)
	for _, s := range sources(t) {
		for name, pos := range s.declared() {
			for _, part := range splitName(name) {
				if b, found := words[part]; found {
					t.Errorf("%s:%d: the name %s: words.txt has %q in place of %q", s.path,
						s.line(pos), name, b.use, part)
				}
			}
		}
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for _, word := range inComments.FindAllString(c.Text, -1) {
					if b := words[strings.ToLower(word)]; !b.names {
						t.Errorf("%s:%d: a comment says %q: words.txt has %q", s.path,
							s.line(c.Pos()), word, b.use)
					}
				}
			}
		}
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string]string{
		"x": "x", "machineRoom": "machine room", "RunID": "run id", "HTTPServer": "http server", "step2Go": "step2 go",
		"snake_case": "snake case", "URL": "url",
	} {
		if got := strings.Join(splitName(name), " "); got != want {
			t.Errorf("%s is split into %q, want %q", name, got, want)
		}
	}
}

// bannedWords reads words.txt.
func bannedWords(t *testing.T) map[string]banned {
	t.Helper()
	text, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]banned{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, use, found := strings.Cut(line, ": ")
		use, names := strings.CutSuffix(use, "; names")
		if _, twice := words[word]; twice || !found {
			t.Errorf("words.txt: %q is there twice, or says no word to use", line)
		}
		words[word] = banned{word: word, use: use, names: names}
	}
	if len(words) == 0 {
		t.Fatal("words.txt bans no word")
	}
	return words
}

// declared lists the names that a file declares, with the first place of each.
func (s source) declared() map[string]token.Pos {
	names := map[string]token.Pos{}
	add := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			if _, seen := names[id.Name]; !seen {
				names[id.Name] = id.Pos()
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				add(n.Value)
			}
		}
		return true
	})
	return names
}

// splitName splits a name at its capitals and underscores: HTTPServer is http and server.
func splitName(name string) []string {
	var parts []string
	runes := []rune(name)
	start := 0
	flush := func(end int) {
		if end > start {
			parts = append(parts, strings.ToLower(string(runes[start:end])))
		}
		start = end
	}
	for i, r := range runes {
		switch {
		case r == '_':
			flush(i)
			start = i + 1
		case i > 0 && unicode.IsUpper(r):
			newWord := !unicode.IsUpper(runes[i-1])
			acronymEnds := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if newWord || acronymEnds {
				flush(i)
			}
		}
	}
	flush(len(runes))
	return parts
}

// goFile is a file of Go code that a document names.
var goFile = regexp.MustCompile("`((?:[A-Za-z0-9_]+/)*[A-Za-z0-9_]+\\.go)(?::([A-Za-z.]+))?`")

// TestDocumentsNameFiles checks that the Go files which the documents name exist, and with them the functions.
func TestDocumentsNameFiles(t *testing.T) {
	functions := map[string][]string{} // the functions by file
	for _, s := range sources(t) {
		path := filepath.ToSlash(s.path)
		functions[path] = []string{}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				name := f.Name.Name
				if f.Recv != nil {
					name = receiver(f.Recv.List[0].Type) + "." + name
				}
				functions[path] = append(functions[path], name)
			}
		}
	}
	for _, doc := range documents(t) {
		text := []byte(page(t, doc))
		place := func(at int) string {
			return fmt.Sprintf("%s:%d", doc, 1+strings.Count(string(text[:at]), "\n"))
		}
		for _, m := range goFile.FindAllSubmatchIndex(text, -1) {
			path := string(text[m[2]:m[3]])
			known, found := functions[path]
			switch {
			case !strings.Contains(path, "/") && !found:
				// The example of a user's own file.
			case !found:
				t.Errorf("%s names %s, which does not exist", place(m[0]), path)
			case m[4] >= 0 && !slices.Contains(known, string(text[m[4]:m[5]])):
				t.Errorf("%s: %s has no function %s", place(m[0]), path, text[m[4]:m[5]])
			}
		}
	}
}
