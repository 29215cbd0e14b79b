package vet

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const directive = "//pawlvet:ignore"

// readIgnores notes the lines of a file whose mistakes are ignored. A comment with a reason ignores its line, and the
// next one if nothing else is on its own.
func (c *checker) readIgnores(f *ast.File) error {
	file := c.pass.Fset.File(f.FileStart)
	var text []byte
	for _, group := range f.Comments {
		for _, comment := range group.List {
			reason, found := strings.CutPrefix(comment.Text, directive)
			if !found || reason != "" && reason == strings.TrimLeft(reason, " \t") {
				continue
			}
			if strings.TrimSpace(reason) == "" {
				c.pass.Report(analysis.Diagnostic{
					Pos: comment.Pos(), End: comment.End(), Category: ignore,
					Message: directive + " has no reason, so it ignores nothing: say after it why the line is right",
				})
				continue
			}
			if text == nil {
				var err error
				if text, err = c.pass.ReadFile(file.Name()); err != nil {
					return err
				}
				c.ignored[file] = map[int]bool{}
			}
			line := file.Line(comment.Pos())
			c.ignored[file][line] = true
			before := text[file.Offset(file.LineStart(line)):file.Offset(comment.Pos())]
			if len(strings.TrimSpace(string(before))) == 0 {
				c.ignored[file][line+1] = true
			}
		}
	}
	return nil
}
