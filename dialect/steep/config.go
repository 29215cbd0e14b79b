package steep

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/dialect/internal/form"
)

// frontMatter is the optional head of a file of services or macros, between two lines of dashes.
var frontMatter = regexp.MustCompile(`(?s)\A\s*---+[ \t]*\r?\n(.*?)\n---+[ \t]*(?:\r?\n|\z)`)

// readConfig reads a file of services or macros. Steep treats such a file as a template if its front matter says so,
// and makes the real text when it starts; there is nothing to read then.
func readConfig(src Source) (f *form.File, ok bool) {
	found := frontMatter.FindSubmatchIndex(src.Text)
	if found == nil {
		return read(src.Name, src.Text), true
	}
	head := form.Read(src.Name, src.Text[:found[3]])
	if head.Err() != nil || !head.Root().IsMapping() {
		return read(src.Name, src.Text), true
	}
	template := head.Root().Get("template")
	text, _ := template.Text()
	if yes, _ := template.Any().(bool); yes || truth[strings.ToLower(text)] {
		head.Fail(template.Pos(), "give the text that Steep makes of it",
			"the file is a template, which Pawl does not fill in")
		return head, false
	}
	// Blank lines replace the front matter, so that places stay the same.
	blank := bytes.Repeat([]byte("\n"), bytes.Count(src.Text[:found[1]], []byte("\n")))
	return read(src.Name, append(blank, src.Text[found[1]:]...)), true
}
