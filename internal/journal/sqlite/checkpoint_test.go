package sqlite

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/disktest"
	"github.com/pawl-dev/pawl/internal/journal"
)

// TestAppendsDoNotWaitForASlowCopy checks that while the log is copied into the file, syncing the file takes long.
// Appends go on meanwhile, until the log is so long that it must be cut. On a quick disk, they wait for the last pages
// only.
func TestAppendsDoNotWaitForASlowCopy(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			disk := disktest.New(t)
			j, err := Open(disk.Path("pawl.db"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			a := &appender{TB: t, j: j}
			if a.lease, err = j.Acquire(t.Context(), 0, "test"); err != nil {
				t.Fatal(err)
			}
			payload := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
			write := func() {
				a.append(journal.Batch{
					Entries: []core.Entry{{Records: []core.Record{core.SignalKept{Name: "n", Payload: payload}}}},
				})
			}
			held := 0 // how often the writer had to wait for the sync
			disk.Fault(func(op disktest.Op, file string) error {
				if op != disktest.Sync || file != "pawl.db" {
					return nil
				}
				<-time.After(slow)
				if !j.mu.TryLock() {
					held++
					return nil
				}
				j.mu.Unlock()
				write() // so that something is left to copy
				return nil
			})
			longest := int64(0)
			for range 80 {
				write()
				synctest.Wait()
				<-time.After(10 * slow) // the checkpointer is done by then
				synctest.Wait()
				longest = max(longest, fileSize(t, j.Path()+"-wal"))
			}
			disk.Fault(nil)
			t.Logf("a sync takes %s: appends waited for %d of them, the log grew to %d MiB", slow, held, longest>>20)
			if slow == 0 && (held < 3 || longest > 24<<20) || slow > 0 && (held > 2 || longest > 80<<20) {
				t.Error("the appends waited too often, or the log grew too long")
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
