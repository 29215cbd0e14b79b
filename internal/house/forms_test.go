package house

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A form is something that is stored in people's databases and files, or sent between processes that may be of
// different versions.
type form struct {
	what string
	// version is the constant with the form's version, as folder.name; empty: it has none, because it is a part of
	// something that has one, or because it says by its keys what it is.
	version string
	golden  []string // files that version 0.1.0 has written
}

// forms are all of them. One that changes in a way that 0.1.0 would not understand gets the next version, and a golden
// file of that; the files of before stay, and are read as before.
var forms = []form{
	{"entries of runs, in the journal and in histories", "internal/core.codecVersion", []string{
		"internal/core/testdata/0.1.0/entries",
	}},
	{"messages between partitions", "internal/core.messageVersion", []string{"internal/core/testdata/0.1.0/messages"}},
	{
		"SQLite files, with batches, rows of the view, definitions, runs of flows, functions and schedules",
		"internal/journal/sqlite.format",
		[]string{
			"internal/journal/sqlite/testdata/0.1.0/schema.sql", "cmd/pawl/testdata/0.1.0/flow.db.gz",
			"cmd/pawl/testdata/0.1.0/program.db.gz",
		},
	},
	{"tables in PostgreSQL, with those of nodes and stores", "internal/journal/postgres.newest", []string{
		"internal/journal/postgres/testdata/0.1.0/schema.sql", "internal/journal/postgres/testdata/0.1.0/rows.sql",
	}},
	{"messages of callers' transactions", "outbox.format", []string{"outbox/testdata/0.1.0/messages.txt"}},
	{"flows with their runs", "internal/kind/flow.Version", []string{"internal/kind/flow/testdata/0.1.0/bundle.json"}},
	{"flow files", "flow.formatVersion", []string{"internal/kind/flow/testdata/0.1.0/bundle.json"}},
	{
		"what servers and processes with bodies tell each other", "internal/api.BodiesVersion",
		[]string{
			"internal/lease/testdata/0.1.0/news.json", "internal/lease/testdata/0.1.0/decisions.json",
			"internal/lease/testdata/0.1.0/workflows.json", "internal/lease/testdata/2/news.json",
			"internal/lease/testdata/2/decisions.json", "internal/lease/testdata/2/workflows.json",
		},
	},
	{
		"what a server stores of workflows that others serve", "internal/api.StoredBodyVersion",
		[]string{"internal/lease/testdata/0.1.0/stored.json"},
	},
	{"webhooks, deliveries, and how messages are signed", "internal/webhook.documentVersion", []string{
		"internal/webhook/testdata/0.1.0/hook.json", "internal/webhook/testdata/0.1.0/delivery.json",
		"internal/webhook/testdata/0.1.0/due.json", "internal/webhook/testdata/0.1.0/signature.txt",
		"internal/webhook/testdata/0.1.0/attention.json",
	}},
	{"figures by minute", "internal/minutes.version", []string{"internal/minutes/testdata/0.1.0/hour.json"}},
	{"tokens and the audit log", "internal/access.documentVersion", []string{
		"internal/access/testdata/0.1.0/token.json", "internal/access/testdata/0.1.0/audited.json",
	}},
	{"flows that were applied", "internal/catalog.documentVersion", []string{
		"internal/catalog/testdata/0.1.0/flow.json",
	}},
	{"claims of idempotency keys", "internal/engine.documentVersion", []string{
		"internal/engine/testdata/0.1.0/claim.json",
	}},
	{"answers to repeated requests", "internal/service.documentVersion", []string{
		"internal/service/testdata/0.1.0/answer.json",
	}},
	{"what an answer is to a server", "", []string{"internal/server/testdata/0.1.0/kept.json"}},
	{"what was seen of a database, in files and between nodes", "internal/journal.seenVersion", []string{
		"internal/journal/testdata/0.2.0/seen.json",
	}},
	{"cursors of lists", "internal/service.cursorVersion", []string{"internal/service/testdata/0.1.0/cursor.txt"}},
	{"the virtual clock", "internal/virtual.documentVersion", []string{"internal/virtual/testdata/0.1.0/mark.json"}},
	{"tokens of attempts", "", []string{"internal/remote/testdata/0.1.0/token.txt"}},
	{"files of histories", "internal/history.version", []string{"internal/history/testdata/0.1.0/history.json"}},
	{"states and changes of schedules, in runs", "internal/schedule.Version", []string{
		"internal/schedule/testdata/0.1.0/state.json", "internal/schedule/testdata/0.1.0/change.json",
	}},
}

// versionName matches the names of constants that are versions.
var versionName = regexp.MustCompile(`(^|[a-z])(format|Format|version|Version|newest)$`)

// otherVersions are versions of something that is neither stored nor sent.
var otherVersions = []string{}

// TestStoredForms checks that everything that is stored or sent has a golden file of version 0.1.0 which a test opens.
// A package that has a version, or stores documents, is in the list above.
func TestStoredForms(t *testing.T) {
	versions, storing := map[string]bool{}, map[string]bool{}
	for _, name := range otherVersions {
		versions[name] = true
	}
	tests := map[string]string{} // texts of a folder's tests
	for _, s := range sources(t) {
		folder := path.Dir(filepath.ToSlash(s.path))
		if s.isTest() {
			text, err := os.ReadFile(filepath.Join(top(t), s.path))
			if err != nil {
				t.Fatal(err)
			}
			tests[folder] += string(text)
			continue
		}
		for _, name := range versionsIn(s.file) {
			versions[folder+"."+name] = false
		}
		if !strings.HasPrefix(folder, "internal/journal") && storesDocuments(s.file) {
			storing[folder] = true
		}
	}
	listed := map[string]bool{}
	for _, f := range forms {
		if _, ok := versions[f.version]; !ok && f.version != "" {
			t.Errorf("%s: there is no constant %s", f.what, f.version)
		}
		versions[f.version] = true
		for _, file := range f.golden {
			listed[file] = true
			folder, _, _ := strings.Cut(file, "/testdata/")
			delete(storing, folder)
			if _, err := os.Stat(filepath.Join(top(t), file)); err != nil {
				t.Errorf("%s: %v", f.what, err)
			}
			if !strings.Contains(tests[folder], path.Base(file)) {
				t.Errorf("%s: no test in %s opens %s", f.what, folder, path.Base(file))
			}
		}
	}
	for name, known := range versions {
		if !known {
			t.Errorf("the form with the version %s is not in the list of stored forms, and has no golden file", name)
		}
	}
	for folder := range storing {
		t.Errorf("%s stores documents, which are not in the list of stored forms", folder)
	}
	eachGolden(t, func(file string) {
		if !listed[file] {
			t.Errorf("%s is in no list, so nobody knows whether a test opens it", file)
		}
	})
}

// versionsIn returns the constants of a file that are versions: numbers with such a name.
func versionsIn(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			values := spec.(*ast.ValueSpec)
			for i, name := range values.Names {
				if i >= len(values.Values) || !versionName.MatchString(name.Name) {
					continue
				}
				if lit, ok := values.Values[i].(*ast.BasicLit); ok && lit.Kind == token.INT {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// storesDocuments reports whether a file makes documents that have a value.
func storesDocuments(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) < 2 {
			return true
		}
		of, ok := lit.Type.(*ast.SelectorExpr)
		if ok && of.Sel.Name == "Document" {
			if of, ok := of.X.(*ast.Ident); ok && of.Name == "journal" {
				found = true
			}
		}
		return true
	})
	return found
}

// eachGolden calls fn with each golden file.
func eachGolden(t *testing.T, fn func(file string)) {
	t.Helper()
	root := top(t)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case !d.IsDir() && strings.Contains(filepath.ToSlash(p), "/testdata/0.1.0/"):
			file, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			fn(filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
