package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/journaltest"
)

// TestTailThatIsTrimmedMeanwhile checks that a tail that takes several reads may lose its oldest batches meanwhile. The
// view has those batches by then.
func TestTailThatIsTrimmedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	j := opened(t, path)
	lease, err := j.Acquire(t.Context(), 0, "test")
	if err != nil {
		t.Fatal(err)
	}
	const batches = 3 * trimAt
	long := []byte(`"` + strings.Repeat("x", 2*tailBytes/batches) + `"`)
	add := func(v *journal.View) {
		lease.Last++
		b := &journal.Batch{Epoch: lease.Epoch, Seq: lease.Last, View: v, Entries: []core.Entry{{
			Run: journaltest.RunID(1), At: 1,
			Records: []core.Record{core.SignalKept{ID: "id", Name: "x", Payload: long}},
		}}}
		if err := j.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for range batches {
		add(nil)
	}
	other, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var seqs []uint64
	err = other.Tail(t.Context(), 0, 0, func(seq uint64, _ []core.Entry) error {
		if len(seqs) == 0 {
			for range 2 { // one delete removes only a limited number
				add(&journal.View{Through: batches - 1})
			}
		}
		seqs = append(seqs, seq)
		return nil
	})
	if err != nil {
		t.Fatalf("after batch %d: %v", seqs[len(seqs)-1], err)
	}
	if seqs[len(seqs)-1] != lease.Last {
		t.Errorf("it ends with batch %d of %d", seqs[len(seqs)-1], lease.Last)
	}
}
