package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// columnLimit is how long a line may be, with a tab as four columns: two files fit beside each other on a screen.
const columnLimit = 120

func TestLineWidth(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(top(t), s.path))
		if err != nil {
			t.Fatal(err)
		}
		output := s.exampleOutput()
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if n := columns(line); n > columnLimit && !output[number] {
				t.Errorf("%s:%d: %d columns, with a tab as four; at most %d are wanted", s.path, number, n, columnLimit)
			}
		}
	}
}

func TestColumns(t *testing.T) {
	for line, want := range map[string]int{
		"": 0, "\n": 0, "abc\n": 3, "\t\tabc\r\n": 11, "a\tb": 6, "größer als …\n": 12,
	} {
		if got := columns(line); got != want {
			t.Errorf("%q has %d columns, want %d", line, got, want)
		}
	}
}

// columns counts the columns of a line without its end.
func columns(line string) int {
	line = strings.TrimRight(line, "\r\n")
	return len([]rune(line)) + 3*strings.Count(line, "\t")
}

// exampleOutput returns the lines of comments that hold an example's output, which may be as long as it is.
func (s source) exampleOutput() map[int]bool {
	lines := map[int]bool{}
	if !s.isTest() {
		return lines
	}
	for _, group := range s.file.Comments {
		if !isOutput(group) {
			continue
		}
		for n := s.line(group.Pos()); n <= s.line(group.End()); n++ {
			lines[n] = true
		}
	}
	return lines
}

func isOutput(group *ast.CommentGroup) bool {
	text := group.Text()
	return strings.HasPrefix(text, "Output:") || strings.HasPrefix(text, "Unordered output:")
}
