package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/journal"
)

// callersWait is how long a commit may take until people are told: callers wait for it.
const callersWait = 2 * time.Second

// blockerWithin bounds the question what a commit waits for.
const blockerWithin = time.Second

// commitWait is a commit that has taken too long and has not ended.
type commitWait struct {
	partition int
	since     time.Time
	blocker   string // what holds it up; empty: unknown
}

func (w *commitWait) String() string {
	text := fmt.Sprintf("a commit to partition %d has waited for %s", w.partition,
		time.Since(w.since).Round(100*time.Millisecond))
	if w.blocker != "" {
		text += ": " + w.blocker
	}
	return text
}

// watched runs a call of the journal that callers wait for. When it has taken too long it says so, with what holds it
// up if the journal can tell, and once more when it has ended.
func (l *loop) watched(began time.Time, call func() error) error {
	said := make(chan struct{})
	late := time.AfterFunc(callersWait, func() {
		defer close(said)
		w := &commitWait{partition: l.e.cfg.Partition, since: began}
		l.e.waits.Store(w)
		if j, ok := l.e.cfg.Journal.(journal.Blockable); ok {
			ctx, cancel := context.WithTimeout(l.e.ctx, blockerWithin)
			defer cancel()
			with := *w
			with.blocker = j.Blocker(ctx, l.e.cfg.Partition)
			l.e.waits.Store(&with)
			w = &with
		}
		l.e.cfg.Log.Warn("a commit waits, and with it all callers of the partition", "partition", w.partition,
			"for", time.Since(began).Seconds(), "blocker", w.blocker)
	})
	err := call()
	if !late.Stop() {
		<-said
		l.e.waits.Store(nil)
		l.e.cfg.Log.Info("the commit that waited has ended", "partition", l.e.cfg.Partition,
			"after", time.Since(began).Seconds(), "error", err)
	}
	return err
}
