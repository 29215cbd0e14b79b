package temporal

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// TestUnreadHistory checks that a worker gets the task of a run though one read of a history fails, whichever that is:
// nothing else may happen to the run that tells the gateway to look again.
func TestUnreadHistory(t *testing.T) {
	failures := 0
	for n := int64(1); ; n++ {
		failed := false
		synctest.Test(t, func(t *testing.T) { failed = historyUnread(t, n) })
		if !failed {
			break
		}
		failures++
	}
	if failures < 2 {
		t.Errorf("%d reads have failed", failures)
	}
}

// historyUnread opens an engine whose only workflow has something to hear, while the n-th read of a history fails. It
// reports whether there were so many reads.
func historyUnread(t *testing.T, n int64) bool {
	b := newBed(t)
	b.must([2]string{"start", ""})
	b.takeTask(options{})
	b.must([2]string{"answer timer t 1h", ""})
	b.close()
	<-time.After(2 * time.Hour)
	var reads atomic.Int64
	b.journal.(*memory.Journal).Fault = func(op memory.Op, _ *journal.Batch) error {
		if op == memory.OpHistory && reads.Add(1) == n {
			return errors.New("the connection is gone")
		}
		return nil
	}
	b.open()
	defer b.close()
	<-time.After(10 * time.Second)
	if got := b.takeTask(options{}); !strings.HasPrefix(got, "task: attempt 1") {
		t.Errorf("after a failure of read %d: %s", n, got)
	}
	return reads.Load() >= n
}
