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

// FuzzNulls: the nulls that are written down before parsing are those that the library finds.
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
