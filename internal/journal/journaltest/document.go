package journaltest

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/journal"
)

// testDocuments checks that documents are stored, replaced and deleted together, found by ranges of their keys, and
// survive.
func testDocuments(f *fixture) {
	put := func(documents ...journal.Document) {
		f.Helper()
		if err := f.j.PutDocuments(f.ctx, documents...); err != nil {
			f.Fatal(err)
		}
	}
	found := func(from, before string, last bool, limit int, want ...string) {
		f.Helper()
		all, err := f.j.FindDocuments(f.ctx, from, before, last, limit)
		if err != nil {
			f.Fatal(err)
		}
		f.equal(fmt.Sprintf("documents from %q before %q, last %v", from, before, last), texts(all), want)
	}
	read := func(keys []string, want ...string) {
		f.Helper()
		all, err := f.j.ReadDocuments(f.ctx, keys...)
		if err != nil {
			f.Fatal(err)
		}
		f.equal(fmt.Sprintf("documents %q", keys), texts(all), want)
	}
	found("", "z", false, 10)
	read([]string{"a/1"})
	put(journal.Document{Key: "a/2", Value: []byte("two")}, journal.Document{Key: "a/1", Value: []byte("one")},
		journal.Document{Key: "a-b", Value: []byte{}}, journal.Document{Key: "A/9", Value: []byte("\x00\xff")},
		journal.Document{Key: "b/1", Value: []byte("other")})
	found("a/", "a0", false, 10, "a/1=one", "a/2=two")
	found("a/", "a0", true, 1, "a/2=two")
	found("", "z", false, 2, "A/9=\x00\xff", "a-b=")
	found("a/1", "a/2", false, 10, "a/1=one")
	found("a/1\x00", "a0", false, 10, "a/2=two")
	found("a/1", "a/2\x00", false, 10, "a/1=one", "a/2=two")
	read([]string{"b/1", "a/1", "none", "a-b", "b/1", "a/"}, "a-b=", "a/1=one", "b/1=other")
	read(nil)
	put(journal.Document{Key: "a/1", Value: []byte("once")}, journal.Document{Key: "a/1", Value: []byte("twice")},
		journal.Document{Key: "a/2"}, journal.Document{Key: "never/there"})
	f.j = f.Reopen()
	found("a/", "a0", false, 10, "a/1=twice")
	put(journal.Document{Key: "a/3", Value: []byte("three")})
	f.j = f.Crash()
	found("a/", "a0", true, 10, "a/3=three", "a/1=twice")
}

// testPartitionDocuments checks that the documents of a batch are stored and deleted with it, and not at all if it is
// refused.
func testPartitionDocuments(f *fixture) {
	m := newMail(f)
	a, b := journal.OfPartition(1)+"a", journal.OfPartition(1)+"b"
	want := func(want ...string) {
		f.Helper()
		all, err := f.j.ReadDocuments(f.ctx, a, b)
		if err != nil {
			f.Fatal(err)
		}
		f.equal("documents of partition 1", texts(all), want)
	}
	put := func(documents ...journal.Document) {
		f.Helper()
		next := m.batch(1)
		next.Documents = documents
		m.put(next)
	}
	want()
	put(journal.Document{Key: a, Value: []byte("one")}, journal.Document{Key: b, Value: []byte("two")})
	want(a+"=one", b+"=two")
	put(journal.Document{Key: a}, journal.Document{Key: b, Value: []byte("2")},
		journal.Document{Key: b, Value: []byte("3")})
	want(b + "=3")
	late := m.batch(1)
	late.Epoch--
	late.Documents = []journal.Document{{Key: a, Value: []byte("of a former owner")}, {Key: b}}
	if err := f.j.Append(f.ctx, late); !errors.Is(err, journal.ErrFenced) {
		f.Errorf("a batch of a former owner: %v", err)
	}
	want(b + "=3")
	put(journal.Document{Key: a, Value: []byte("four")}, journal.Document{Key: b})
	f.j = f.Crash()
	want(a + "=four")
}

// texts returns keys and values as texts.
func texts(all []journal.Document) (out []string) {
	for _, d := range all {
		out = append(out, d.Key+"="+string(d.Value))
	}
	return out
}
