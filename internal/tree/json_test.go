package tree

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestOneLine checks a document that a program writes in one line. Its places are as exact as others', and it is read
// in about the time that the same takes in many lines.
func TestOneLine(t *testing.T) {
	tree := Read("x.json", []byte(`{"ä": [1, "€", {"b": "\u00e4ä", "c": [true]}], "d": null}`))
	if err := tree.Err(); err != nil {
		t.Fatal(err)
	}
	list := tree.Root().Get("ä").Items()
	for _, at := range []struct {
		got  Pos
		want int
	}{
		{tree.Root().Pos(), 1},
		{list[0].Pos(), 8},
		{list[1].Pos(), 11},
		{list[2].Pos(), 16},
		{list[2].Key("c"), 33},
		{list[2].Get("c").Items()[0].Pos(), 39},
		{tree.Root().Key("d"), 48},
	} {
		if at.got != (Pos{1, at.want}) {
			t.Errorf("%v, want column %d", at.got, at.want)
		}
	}

	took := func(src string) time.Duration {
		start := time.Now()
		if err := Read("x.json", []byte(src)).Err(); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	lines := `{"a": [` + strings.Repeat("\"a text\",\n", 30_000) + "1]}"
	if many, one := took(lines), took(strings.ReplaceAll(lines, "\n", " ")); one > 20*many {
		t.Errorf("%v in one line, %v in many", one, many)
	}
}

// TestJSONErrors checks that a text that is not JSON is refused where it stops being JSON.
func TestJSONErrors(t *testing.T) {
	deep := strings.Repeat("[", 99)
	for _, c := range []struct{ src, want string }{
		{`{"a": 1`, `1:8: not readable as JSON: unexpected end`},
		{`{"a"`, `1:5: not readable as JSON: unexpected end`},
		{`{"a":`, `1:6: not readable as JSON: unexpected end`},
		{`{`, `1:2: not readable as JSON: unexpected end`},
		{"{\n  \"a\": [1 2]}", `2:11: not readable as JSON: unexpected '2' where , or ] is expected`},
		{`{"a": 1 "b": 2}`, `1:9: not readable as JSON: unexpected '"' where , or } is expected`},
		{`{"a" 1}`, `1:6: not readable as JSON: unexpected '1' where : is expected`},
		{`{a: 1}`, `1:2: not readable as JSON: unexpected 'a' where a text is expected`},
		{`{1: 1}`, `1:2: not readable as JSON: unexpected '1' where a text is expected`},
		{`{"a": 1,}`, `1:9: not readable as JSON: unexpected '}' where a text is expected`},
		{`{"a": [1,]}`, `1:10: not readable as JSON: unexpected ']'`},
		{`{"a": [,1]}`, `1:8: not readable as JSON: unexpected ','`},
		{`{"a": }`, `1:7: not readable as JSON: unexpected '}'`},
		{`{"a": nul}`, `1:10: not readable as JSON: unexpected '}'`},
		{`{"a": 'x'}`, `1:7: not readable as JSON: unexpected '\''`},
		{`{"ä": "ö`, `1:9: not readable as JSON: unexpected end`},
		{"{\"a\": \"x\ny\"}", `1:9: not readable as JSON: unexpected '\n' in a text`},
		{`{"a": "\x"}`, `1:9: not readable as JSON: unexpected 'x' in a text`},
		{`{"a": "\u12g4"}`, `1:12: not readable as JSON: unexpected 'g' in a text`},
		{`{"a": 01}`, `1:8: not readable as JSON: unexpected '1' where , or } is expected`},
		{`{"a": 1.}`, `1:9: not readable as JSON: unexpected '}'`},
		{`{"a": -}`, `1:8: not readable as JSON: unexpected '}'`},
		{`{"a": [1, true, -],, 2}`, `1:18: not readable as JSON: unexpected ']'`},
		{`{"a": [,,1]}`, `1:8: not readable as JSON: unexpected ','`},
		{`{"a": 1]`, `1:8: not readable as JSON: unexpected ']' where , or } is expected`},
		{`{"a": [1}`, `1:9: not readable as JSON: unexpected '}' where , or ] is expected`},
		{`{"a": +1}`, `1:7: not readable as JSON: unexpected '+'`},
		{`{"a": 1} {"b": 2}`, `1:10: not readable as JSON: unexpected '{' after the document`},
		{"{\"a\": 1}\n}", `2:1: not readable as JSON: unexpected '}' after the document`},
		{`{"a": 1} x`, `1:10: not readable as JSON: unexpected 'x' after the document`},
		{`{"a": 1, "b": 2, "a": 3}`, `1:18: "a" is given twice; the first one is on line 1`},
		{"{\"a\": {\"b\": 1,\n\"b\": 2}}", `2:1: "b" is given twice; the first one is on line 1`},
		{"{\"a\": \"\xff\"}", `1:8: invalid UTF-8: byte 0xff; save the file as UTF-8`},
		{`{"a": 1e999}`, `1:7: not readable as JSON: number 1e999 too large`},
		{`{"a": ` + deep + `[1` + deep, `1:106: not readable as JSON: nested more than 100 levels deep`},
		{"\ufeff{\"a\" 1}", `1:6: not readable as JSON: unexpected '1' where : is expected`},
	} {
		err := Read("x.json", []byte(c.src)).Err()
		if err == nil {
			t.Errorf("%s: no error, want %s", c.src, c.want)
			continue
		}
		got, _, _ := strings.Cut(err.Error(), "\n")
		if got != "x.json:"+c.want {
			t.Errorf("%s\ngot  %s\nwant x.json:%s", c.src, got, c.want)
		}
	}
}

// TestJSONValues checks that every kind of value is read as YAML would read it.
func TestJSONValues(t *testing.T) {
	src := "\ufeff\n {\"null\": null, \"bool\": [true, false], \"whole\": 9007199254740993, " +
		"\"large\": 18446744073709551615,\r\n" +
		`"huge": 18446744073709551616, "minus": -3, "part": 1.5e3, ` +
		`"text": "a\"\u00e4\ud83d\ude00\ud800\n", "": {}, "list": []}`
	file := Read("x.json", []byte(src))
	if err := file.Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"null": nil, "bool": []any{true, false}, "whole": 9007199254740993, "large": uint64(18446744073709551615),
		"huge": 18446744073709551616.0, "minus": -3, "part": 1500.0, "text": "a\"ä😀\ufffd\n", "": map[string]any{},
		"list": []any{},
	}
	if got := file.Root().Any(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	for _, at := range []struct {
		got, want Pos
	}{
		{file.Root().Pos(), Pos{2, 2}},
		{file.Root().Key("huge"), Pos{3, 1}},
		{file.Root().Get("huge").Pos(), Pos{3, 9}},
	} {
		if at.got != at.want {
			t.Errorf("%v, want %v", at.got, at.want)
		}
	}
}
