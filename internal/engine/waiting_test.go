package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/journal/memory"
)

// heldJournal is a journal whose appends wait as long as somebody holds a lock.
type heldJournal struct {
	*memory.Journal
	lock atomic.Pointer[chan struct{}] // nil: nobody holds it
}

func (j *heldJournal) Append(ctx context.Context, b *journal.Batch) error {
	if lock := j.lock.Load(); lock != nil {
		<-*lock
	}
	return j.Journal.Append(ctx, b)
}

func (j *heldJournal) Blocker(context.Context, int) string { return "process 7 holds a lock" }

// TestCommitWaits checks that a commit which callers wait for is told after two seconds, with what holds it up, and no
// longer when it has ended.
func TestCommitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &heldJournal{Journal: memory.New()}
		e, _ := open(t, j, 1, succeed)
		lock := make(chan struct{})
		j.lock.Store(&lock)
		started := make(chan struct{})
		go func() {
			defer close(started)
			mustStart(t, e, flow("one", task()))
		}()
		<-time.After(1900 * time.Millisecond)
		if text := e.Stats().Stalled; text != "" {
			t.Errorf("after 1.9 s: %s", text)
		}
		<-time.After(time.Second)
		const want = "a commit to partition 0 has waited for 2.9s: process 7 holds a lock"
		if text := e.Stats().Stalled; !strings.Contains(text, want) {
			t.Errorf("after 2.9 s: %q, want %q", text, want)
		}
		j.lock.Store(nil)
		close(lock)
		<-started
		<-time.After(time.Second)
		if text := e.Stats().Stalled; text != "" {
			t.Errorf("in the end: %s", text)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
