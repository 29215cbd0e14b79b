// Package topic finds what the reference says about a word: a page, its sections, and the rows of its tables.
package topic

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/nearest"
)

// Book is the reference, read from pages in Markdown.
type Book struct{ pages []*page }

// page is a page of the reference. Its first section is what stands before the others, with the page's own title.
type page struct {
	name     string // file name without .md
	sections []*section
}

type section struct {
	title string
	lines []string // the lines below the title
}

// Read reads the pages of a folder. Those of flow files come first.
func Read(files fs.FS) (*Book, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	b := &Book{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		p := &page{name: strings.TrimSuffix(path.Base(name), ".md")}
		fenced := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			fenced = fenced != strings.HasPrefix(line, "```")
			marks, title, isTitle := strings.Cut(line, "# ")
			n := len(p.sections)
			switch {
			case isTitle && !fenced && strings.Trim(marks, "#") == "":
				p.sections = append(p.sections, &section{title: title})
			case n == 0:
				return nil, fmt.Errorf("the page %s of the reference does not begin with its title", name)
			default:
				p.sections[n-1].lines = append(p.sections[n-1].lines, line)
			}
		}
		if len(p.sections) > 0 {
			b.pages = append(b.pages, p)
		}
	}
	slices.SortStableFunc(b.pages, func(x, y *page) int { return x.rank() - y.rank() })
	return b, nil
}

func (p *page) rank() int {
	if p.name == "flow" {
		return 0
	}
	return 1
}

// Find returns what the reference says about a word, in lines of about that width; empty if it says nothing.
func (b *Book) Find(word string, width int) string {
	out := &writer{width: width}
	for _, p := range b.pages {
		for _, s := range p.sections[1:] {
			if s.isAbout(word) && !strings.EqualFold(p.name, word) {
				out.section(s)
			}
		}
	}
	for _, p := range b.pages {
		if strings.EqualFold(p.name, word) {
			for _, s := range p.sections {
				out.section(s)
			}
		}
	}
	for _, p := range b.pages {
		for _, s := range p.sections {
			if !out.has(s) {
				out.rows(s, word)
			}
		}
	}
	if out.Len() == 0 { // no table has it: sections that speak of it
		for _, p := range b.pages {
			for _, s := range p.sections[1:] {
				if strings.Contains(strings.Join(s.lines, "\n"), "`"+word+"`") {
					out.section(s)
				}
			}
		}
	}
	return out.String()
}

// isAbout reports whether a section has the word as its title or in it: timeout in "timeout of a step".
func (s *section) isAbout(word string) bool {
	if strings.EqualFold(s.title, word) {
		return true
	}
	const shortest = 4 // letters: "of" and "it" name no section
	return len(word) >= shortest && slices.ContainsFunc(strings.Fields(s.title), func(w string) bool {
		return strings.EqualFold(w, word)
	})
}

// Near names the topic that a misspelt word was most likely meant to be: did you mean "retry"? It is empty if none is
// near.
func (b *Book) Near(word string) string { return nearest.Hint(word, b.Topics()) }

// Topics lists what Find knows: pages, titles and the first cells of tables, each once.
func (b *Book) Topics() []string {
	var out []string
	for _, p := range b.pages {
		out = append(out, p.name)
		for _, s := range p.sections[1:] {
			out = append(out, s.title)
			for _, cells := range s.table() {
				out = append(out, names(cells[0])...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// table returns the cells of the rows of a section's tables.
func (s *section) table() [][]string {
	var out [][]string
	for _, line := range s.lines {
		if cells := cellsOf(line); cells != nil && !isRule(cells) {
			out = append(out, cells)
		}
	}
	return out
}

// names returns the names in the first cell of a row: what stands between backquotes.
func names(cell string) []string {
	var out []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			out = append(out, part)
		}
	}
	return out
}

// cellsOf splits the row of a table; nil if the line is not one.
func cellsOf(line string) []string {
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	const bar = "\x00" // a bar that stands in a cell
	line = strings.Trim(strings.ReplaceAll(line, `\|`, bar), "| ")
	cells := strings.Split(line, "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, bar, "|"))
	}
	return cells
}

// isRule reports whether a row is the line below the head of a table.
func isRule(cells []string) bool { return strings.Trim(cells[0], "-:") == "" && cells[0] != "" }
