package house

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// verb is the form of a verb that a comment of a function goes on with: "returns", "checks", "reports".
	verb = regexp.MustCompile(`^[a-z]+s$`)

	// notVerbs are words that look like a verb in that form, or that tell what a function is in place of what it does.
	notVerbs = []string{"is", "was", "as", "has", "this", "its", "always", "thus", "theirs", "ours"}

	// openings are the words that make a reader wait for the noun.
	openings = []string{
		"what", "of", "in", "on", "at", "by", "for", "from", "to", "with", "without", "under", "over", "between",
		"within", "through", "into", "among", "beside", "besides", "beyond", "behind", "below", "above", "during",
		"against", "across", "along", "around", "despite", "except", "like", "near", "per", "than", "toward", "upon",
		"via",
	}

	// conjunctions may open a sentence, and not a fragment beside a field.
	conjunctions = []string{"after", "before", "until", "since"}
)

// TestFunctionComments checks that the comment of a function begins with its name and a verb.
func TestFunctionComments(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Doc == nil || f.Name.Name == "_" {
				continue
			}
			words := strings.Fields(f.Doc.Text())
			switch {
			case len(words) == 0: // a directive alone
			case words[0] != f.Name.Name:
				t.Errorf("%s:%d: the comment of %s begins with %q: begin with its name", s.path, s.line(f.Pos()),
					f.Name.Name, words[0])
			case len(words) < 2 || !verb.MatchString(words[1]) || slices.Contains(notVerbs, words[1]):
				t.Errorf("%s:%d: the comment of %s has no verb after the name (returns, reports, checks)", s.path,
					s.line(f.Pos()), f.Name.Name)
			}
		}
	}
}

// TestCommentOpenings checks that no comment begins with a preposition or with "what".
func TestCommentOpenings(t *testing.T) {
	for _, s := range sources(t) {
		functions := map[*ast.CommentGroup]bool{} // their comments begin with a name, which may be a preposition
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				functions[f.Doc] = true
			}
		}
		for _, group := range s.file.Comments {
			words := strings.Fields(group.Text())
			if len(words) == 0 || functions[group] {
				continue
			}
			first := strings.Trim(words[0], `,:;."`)
			word := strings.ToLower(first)
			if slices.Contains(openings, word) || first == word && slices.Contains(conjunctions, word) {
				t.Errorf("%s:%d: a comment begins with %q: begin with the noun", s.path, s.line(group.Pos()), first)
			}
		}
	}
}

// relatives are the words that open half a sentence, whose noun the reader has to find in the name beside it.
var relatives = []string{"that", "which", "who", "whose", "so", "if"}

// TestFieldComments checks that the comment beside a field is a noun phrase, or a sentence about it.
func TestFieldComments(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			fields, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range fields.Fields.List {
				words := strings.Fields(field.Comment.Text())
				if len(words) > 0 && slices.Contains(relatives, words[0]) {
					t.Errorf("%s:%d: the comment of a field begins with %q: begin with the noun", s.path,
						s.line(field.Comment.Pos()), words[0])
				}
			}
			return true
		})
	}
}
