package house

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
