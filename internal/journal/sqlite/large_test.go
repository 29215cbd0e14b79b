package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// largeRun appends a run with a large entry, and the view of it. It returns the entry.
func (a *appender) largeRun(n int) core.Entry {
	e := created(n, false)
	e.Records[0] = core.RunCreated{Workflow: "backup", Input: []byte(strings.Repeat("x", journal.LargeEntry))}
	a.append(journal.Batch{Entries: []core.Entry{e}})
	v := &journal.View{Through: a.lease.Last}
	viewRun(v, n, a.lease.Last, false)
	v.Runs[0].Definition = core.DefinitionID{}
	h := &v.History[0]
	h.Entries = core.AppendEntry(nil, &e)
	h.Large = []journal.Large{{Run: e.Run, Seq: a.lease.Last, To: len(h.Entries)}}
	a.append(journal.Batch{View: v})
	return e
}

func (a *appender) one(query string, want int64) {
	a.Helper()
	if got, err := queryInt(a.j.w.conn, query); err != nil || got != want {
		a.Errorf("%s: %d, %v, want %d", query, got, err, want)
	}
}

// checked returns what Check says of the file, as lines.
func (a *appender) checked() string {
	r, err := Check(a.Context(), a.j.Path())
	if err != nil {
		a.Fatal(err)
	}
	return strings.Join(r.Problems, "\n")
}

// TestLargeEntryIsStoredOnce follows a large entry from its batch to its end.
func TestLargeEntryIsStoredOnce(t *testing.T) {
	a := newAppender(t)
	a.append(journal.Batch{Entries: []core.Entry{created(1, false)}})
	for n := 2; n < 5; n++ {
		a.largeRun(n)
	}
	a.one("SELECT count(*) FROM large_entries WHERE length(entry) > 32768", 3)
	a.one("SELECT (SELECT max(length(entries)) FROM journal) < 1000", 1)
	a.one("SELECT (SELECT max(length(entries)) FROM history) < 1000", 1)
	if _, err := a.j.Prune(t.Context(), 0, journal.Old{Before: 1 << 60, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	a.one("SELECT count(*) FROM large_entries", 3) // its batch needs the entry of the deleted run
	if problems := a.checked(); problems != "" {
		t.Error(problems)
	}
	for range 2 * trimAt {
		a.append(journal.Batch{View: &journal.View{Through: a.lease.Last}})
	}
	a.one("SELECT count(*) FROM large_entries", 2)
	if _, err := a.j.Prune(t.Context(), 0, journal.Old{Before: 1 << 60, Limit: 10}); err != nil {
		t.Fatal(err)
	}
	a.one("SELECT count(*) FROM large_entries", 0)
	if problems := a.checked(); problems != "" {
		t.Error(problems)
	}
}

// TestDamagedLargeEntry damages a large entry, deletes one, moves one, and adds one that belongs to nothing. Check says
// it, and who needs the entry gets an error.
func TestDamagedLargeEntry(t *testing.T) {
	for _, test := range []struct {
		damage, problem string
		refused         bool
	}{
		{"UPDATE large_entries SET entry = zeroblob(length(entry))", "the checksum of its", true},
		{"DELETE FROM large_entries", "is missing", true},
		{"UPDATE large_entries SET run = x'01', id = id + (99 << 9)", "is missing", true},
		{"INSERT INTO large_entries SELECT id + (99 << 9), x'01', sum, entry FROM large_entries", "not there", false},
	} {
		a := newAppender(t)
		e := a.largeRun(1)
		execAll(t, a.j.Path(), test.damage)
		if problems := a.checked(); !strings.Contains(problems, test.problem) {
			t.Errorf("%s: %s", test.damage, problems)
		}
		h, err := a.j.History(t.Context(), e.Run)
		if test.refused != errors.Is(err, journal.ErrCorrupt) || !test.refused && len(h.Entries) != 1 {
			t.Errorf("%s: history %v", test.damage, err)
		}
		err = a.j.Tail(t.Context(), 0, 0, func(uint64, []core.Entry) error { return nil })
		if test.refused != errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("%s: tail %v", test.damage, err)
		}
	}
}

// TestBrokenReferences reads blobs that refer to large entries, cut off and with wrong places.
func TestBrokenReferences(t *testing.T) {
	l := large{refs: []reference{{3, 5, 7}, {5, 9, 300}}}
	whole := l.shorten([]byte("abcdefghijk"))
	refs, rest, err := readReferences(whole[1:])
	if err != nil || string(rest) != "abcjk" || fmt.Sprint(refs) != "[{3 0 7} {3 0 300}]" {
		t.Fatalf("%v, %q, %v", refs, rest, err)
	}
	for end := 1; end < len(whole)-2; end++ {
		if _, _, err := readReferences(whole[1:end]); !errors.Is(err, core.ErrBroken) {
			t.Errorf("the first %d bytes: %v", end, err)
		}
	}
	for _, bad := range [][]byte{
		{2, 3, 1, 2, 1, 'a', 'b', 'c'}, // the second one stands before the first
		{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1},
	} {
		if _, _, err := readReferences(bad); !errors.Is(err, core.ErrBroken) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
