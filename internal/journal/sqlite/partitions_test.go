package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
)

func TestPartitionsStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	j, err := journal.Open(t.Context(), "sqlite:"+path+"?partitions=4")
	if err != nil {
		t.Fatal(err)
	}
	if n := j.PartitionCount(); n != 4 {
		t.Errorf("%d partitions", n)
	}
	const want = "there is no partition 4, it has 4"
	if _, err := j.Acquire(t.Context(), 4, "x"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a fifth partition: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{
		0: "", 4: "", 1: "it has 4 partitions, not 1", 5: "it has 4 partitions, not 5",
		-1: "there can be from 1 to 16384",
	} {
		j, err := Open(path, Options{Partitions: n})
		if want == "" && err == nil {
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
	for _, bad := range []string{"0", "x", "", "99999"} {
		_, err := journal.Open(t.Context(), "sqlite:"+path+"?partitions="+bad)
		if err == nil || !strings.Contains(err.Error(), "the number of partitions") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestCheckMessages checks that Check finds what is wrong with messages.
func TestCheckMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	j := openedWith(t, path, 2)
	lease, err := j.Acquire(t.Context(), 0, "x")
	if err != nil {
		t.Fatal(err)
	}
	message := core.AppendMessage(nil, &core.Message{Name: "x", Content: core.ChildAsk{}})
	m := journal.Message{To: 1, Seq: 7, Encoded: message}
	if err := j.Append(t.Context(), &journal.Batch{Epoch: lease.Epoch, Seq: 1, Out: []journal.Message{m}}); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), path); err != nil || len(r.Problems) > 0 || r.Messages != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, damage := range []struct{ text, want string }{ // the order matters: each hides those before it
		{"INSERT INTO taken VALUES (1, 0, 7)", "was taken, and is still there"},
		{"UPDATE inbox SET target = 5", "to partition 5 of 2"},
		{"UPDATE inbox SET message = x'00'", "the checksum of its 1 bytes does not match"},
	} {
		if err := exec0(j, damage.text); err != nil {
			t.Fatal(err)
		}
		r, err := Check(t.Context(), path)
		if err != nil || !strings.Contains(strings.Join(r.Problems, "\n"), damage.want) {
			t.Errorf("%s: %+v, %v", damage.text, r, err)
		}
	}
}

// TestGroupCommit appends from several partitions at once. If a batch of one partition is refused, the batches of the
// others are still committed.
func TestGroupCommit(t *testing.T) {
	const partitions, batches = 4, 100
	j := openedWith(t, filepath.Join(t.TempDir(), "pawl.db"), partitions)
	var all sync.WaitGroup
	for p := range partitions {
		lease, err := j.Acquire(t.Context(), p, "x")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for n := range batches {
				b := &journal.Batch{
					Partition: p, Epoch: lease.Epoch, Seq: uint64(n + 1),
					Entries: []core.Entry{{
						Run: journaltest.RunID(p*batches + n), Records: []core.Record{core.RunCreated{}},
					}},
				}
				if p == 0 && n%3 == 0 { // the database refuses it, in the middle of the transaction
					bad := *b
					h := journal.HistoryRow{Run: journaltest.RunID(n), Seq: 1}
					bad.View = &journal.View{History: []journal.HistoryRow{h, h}}
					if err := j.Append(t.Context(), &bad); err == nil {
						t.Error("a history with a piece twice was accepted")
					}
				}
				if p == 1 && n%3 == 0 { // it is refused before the transaction
					err := j.Append(t.Context(), &journal.Batch{Partition: p, Epoch: 99, Seq: b.Seq})
					if !errors.Is(err, journal.ErrFenced) {
						t.Error(err)
					}
				}
				if err := j.Append(t.Context(), b); err != nil {
					t.Error(fmt.Errorf("partition %d: %w", p, err))
					return
				}
			}
		})
	}
	all.Wait()
	for p := range partitions {
		n := 0
		err := j.Tail(t.Context(), p, 0, func(seq uint64, entries []core.Entry) error {
			if n++; seq != uint64(n) || len(entries) != 1 || entries[0].Run != journaltest.RunID(p*batches+n-1) {
				t.Errorf("partition %d, batch %d: %v", p, seq, entries)
			}
			return nil
		})
		if err != nil || n != batches {
			t.Errorf("partition %d has %d batches: %v", p, n, err)
		}
	}
}
