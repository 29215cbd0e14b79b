package tree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

func TestTooLarge(t *testing.T) {
	err := Read("big.yaml", []byte("pawl: 1\n#"+strings.Repeat("x", MaxSize))).Err()
	if err == nil || !strings.Contains(err.Error(), "4 MiB") {
		t.Fatalf("got %v", err)
	}
}

func TestInvalidUTF8(t *testing.T) {
	err := Read("order.yaml", []byte("pawl: 1\nname: ä\xff\n")).Err()
	var e *Error
	if !errors.As(err, &e) || e.Line != 2 || e.Col != 8 || !strings.Contains(e.Msg, "0xff") {
		t.Fatalf("got %v", err)
	}
}

// FuzzNulls checks that the nulls written down before parsing are those that the library finds.
func FuzzNulls(f *testing.F) {
	f.Add("a:\nb: {c: , d: }\ne:\n- \n- x\n-\nf:\n  - g:\n    h:\n  -\ni:\n")
	f.Add("a: # x\n  b:\n\nc: &x\nd: *x\n? e\n: f\ng:\n  # y\n\nh: |\n  i:\nj: 'k'\n")
	f.Add("- a:\n- b:\n  - c:\n  - d:\n")
	f.Fuzz(func(t *testing.T, src string) {
		tokens := lexer.Tokenize(src)
		if _, why := hostile(tokens); why != "" {
			return
		}
		want, err1 := quietParse(tokens)
		got, err2 := quietParse(withNulls(lexer.Tokenize(src)))
		if (err1 == nil) != (err2 == nil) || want != got {
			t.Fatalf("%q\nwithout: %s %v\nwith: %s %v", src, want, err1, got, err2)
		}
	})
}

func quietParse(tokens token.Tokens) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return "", err
	}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			r := &Reports{}
			n := (&yamlReader{Reports: r}).node(doc.Body)
			text += fmt.Sprintf("%#v %v;", n.Any(), len(r.Errors))
		}
	}
	return text, nil
}

// TestMergeBeforeOwnKeys checks that a mapping's own keys replace merged ones, wherever << stands, and that a byte
// order mark is not part of the document.
func TestMergeBeforeOwnKeys(t *testing.T) {
	for _, text := range []string{
		"b: &b {x: 1, y: 2}\nm: {<<: *b, x: 3}\n", "\ufeffb: &b {x: 1, y: 2}\nm: {x: 3, <<: *b}\n",
	} {
		read := Read("m.yaml", []byte(text))
		got := read.Root().Get("m")
		x, y := JSON(got.Get("x").Any()), JSON(got.Get("y").Any())
		if read.Err() != nil || len(got.Fields()) != 2 || string(x) != "3" || string(y) != "2" {
			t.Errorf("%q: x %s, y %s, %v", text, x, y, read.Err())
		}
	}
}
