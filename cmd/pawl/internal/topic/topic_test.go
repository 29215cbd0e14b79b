package topic_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/topic"
	"github.com/pawl-dev/pawl/docs/reference"
	"github.com/pawl-dev/pawl/flow"
)

func read(t *testing.T) *topic.Book {
	t.Helper()
	book, err := topic.Read(reference.Pages)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// TestEveryKeyIsATopic checks that the reference says something of each key of a flow file, and of each word that Near
// may propose.
func TestEveryKeyIsATopic(t *testing.T) {
	var root struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(flow.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	book := read(t)
	words := book.Topics()
	for key := range root.Properties {
		words = append(words, key)
	}
	for _, def := range root.Defs {
		for key := range def.Properties {
			words = append(words, key)
		}
	}
	for _, word := range words {
		if book.Find(word, 80) == "" {
			t.Errorf("the reference says nothing of %q", word)
		}
	}
}

func TestFind(t *testing.T) {
	book := read(t)
	for word, want := range map[string][]string{
		"exec": {
			"EXEC\n", "  grace          Time between SIGTERM and SIGKILL. (duration)\n", "ARTIFACTS\n", "with * and **",
		},
		"foreach":          {"STEPS\n", "  forEach  Does the step once for each item"},
		"onFailure":        {"HOOKS\n", "  onFailure  When the run fails"},
		"timeout":          {"TIMEOUT OF A STEP\n", "TIMEOUT OF A RUN\n", "  startToClose "},
		"kinds of failure": {"KINDS OF FAILURE\n", "  lost "},
		"split":            {"split('a,b', ',') (gives: [\"a\",\"b\"])"},
		"PAWL_OUTPUT":      {"  PAWL_OUTPUT  a file"},
		"no such":          nil,
	} {
		found := book.Find(word, 80)
		if (found == "") != (want == nil) {
			t.Errorf("of %q it says\n%s", word, found)
		}
		for _, text := range want {
			if !strings.Contains(found, text) {
				t.Errorf("of %q it does not say %q:\n%s", word, text, found)
			}
		}
	}
	if hint := book.Near("retyr"); hint != `did you mean "retry"?` {
		t.Error(hint)
	}
}

// TestRead checks how the marks of Markdown become plain text.
func TestRead(t *testing.T) {
	book, err := topic.Read(fstest.MapFS{"a.md": {Data: []byte("# All\n\nA [link](x.md) in **bold**,\nand `**`.\n\n" +
		"## One\n\n- first\n  goes on\n- second\n\n```sh\n# no title\n```\n\n| name | what | value |\n|---|---|---|\n" +
		"| `a` | `x` \\| `y` | z |\n")}})
	if err != nil {
		t.Fatal(err)
	}
	want := "ALL\n\nA link in bold, and **.\n\nONE\n\n- first goes on\n- second\n\n    # no title\n\n  a  x | y (z)\n\n"
	if have := book.Find("a", 80); have != want {
		t.Errorf("%q", have)
	}
	if _, err := topic.Read(fstest.MapFS{"a.md": {Data: []byte("no title\n")}}); err == nil {
		t.Error("a page without a title is read")
	}
}
