package journal

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func example() Seen {
	return Seen{
		Database: "ABC", Generation: Generation{1, "DEF"}, Primaries: map[string]Primary{"": {"7", 2}},
		Partitions: map[int]Stand{7: {3, 1034}},
	}
}

// TestSeenForm checks that what was seen is written as before, and what was written before is read.
func TestSeenForm(t *testing.T) {
	seen := example()
	text, err := seen.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/0.2.0/seen.json")
	if err != nil || string(text)+"\n" != string(want) {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	if got, err := DecodeSeen(want); err != nil || !reflect.DeepEqual(got, seen) {
		t.Errorf("%+v, %v; want %+v", got, err, seen)
	}
}

// TestSeenCheck checks what a database lacks.
func TestSeenCheck(t *testing.T) {
	for says, change := range map[string]func(*Seen){
		"": func(*Seen) {},
		"(partition 7: batch 1,033, 1,034 was seen)":              func(s *Seen) { s.Partitions[7] = Stand{3, 1033} },
		"(partition 7: owner 2, 3 was seen)":                      func(s *Seen) { s.Partitions[7] = Stand{2, 1034} },
		"(timeline 1, 2 was seen)":                                func(s *Seen) { s.Primaries[""] = Primary{"7", 1} },
		"(generation 0, 1 was seen)":                              func(s *Seen) { s.Generation = Generation{} },
		"it was accepted as generation 1, and so was another one": func(s *Seen) { s.Generation.Mark = "X" },
		"it has the id X, ABC was seen":                           func(s *Seen) { s.Database = "X" },
	} {
		seen, found := example(), example()
		change(&found)
		err := seen.Check(&found)
		if says == "" && err == nil {
			continue
		}
		if !errors.Is(err, ErrBehind) || says == "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %s", err, says)
		}
	}
	seen, found := example(), example()
	found.Generation, found.Partitions[7] = Generation{2, "X"}, Stand{1, 1}
	if err := seen.Check(&found); err != nil {
		t.Errorf("a newer generation: %v", err)
	}
	found = example()
	found.Primaries[""], found.Partitions[7] = Primary{"8", 1}, Stand{4, 1035}
	if err := seen.Check(&found); err != nil {
		t.Errorf("another server with all of it: %v", err)
	}
}

// TestNotes checks that notes outlive their process, and that two processes keep the more of what each has seen.
func TestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "seen")
	open := func() *Notes {
		n, err := OpenNotes(path)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	one, two := open(), open()
	for i, n := range []*Notes{one, two} {
		n.Begin("ABC")
		n.Note(i, Stand{1, uint64(10 + i)})
		n.Note(2, Stand{1, uint64(20 - i)})
	}
	for _, n := range []*Notes{one, two} {
		if err := errors.Join(n.Close(), n.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int]Stand{0: {1, 10}, 1: {1, 11}, 2: {1, 20}}
	if got, err := ReadNotes(path); err != nil || !reflect.DeepEqual(got.Partitions, want) {
		t.Errorf("%+v, %v; want %v", got, err, want)
	}
	again := open()
	again.Begin("another")
	if got := again.Seen(); len(got.Partitions) > 0 {
		t.Errorf("of another database: %+v", got)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	const says = "if the database is the right one, remove"
	if _, err := OpenNotes(path); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a damaged file: %v", err)
	}
}
