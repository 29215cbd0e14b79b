package tree

import (
	"strings"
	"testing"
	"time"
)

// TestOneLine: a program writes a whole document in one line. Its places are as exact as others', and it is read in about the
// time that the same takes in many lines.
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
