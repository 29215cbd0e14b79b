package sqlite

import (
	"fmt"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
)

const (
	// logPages is the length of the write-ahead log at which it is copied into the file: 16 MiB.
	logPages = 16 << 20 / pageSize
	// longLogPages is the length at which the log is also truncated. It grows so long only if a reader holds a snapshot
	// for a long time, or the disk is full.
	longLogPages = 4 * logPages
	// lastPages is how much of the log may be left to copy while appends wait.
	lastPages = 512 << 10 / pageSize
	// wroteAtLeast is how many bytes are written between two checks of the log's length.
	wroteAtLeast = 4 << 20
	// slowCopy is how long it may take to copy a few pages. If it takes longer, appends do not wait for the next copy.
	slowCopy = 100 * time.Millisecond
)

// checkpointer copies the write-ahead log into the file, which SQLite calls a checkpoint. It has its own connection and
// goroutine, so an append waits at most for the last few pages.
type checkpointer struct {
	conn    *conn
	wake    chan struct{}
	done    chan struct{}
	written atomic.Int64 // about how many bytes were written since the last check
}

// wrote counts the bytes that a commit added to the log.
func (c *checkpointer) wrote(bytes int) {
	if c.written.Add(int64(bytes)) < wroteAtLeast {
		return
	}
	c.written.Store(0)
	select {
	case c.wake <- struct{}{}:
	default: // it is awake
	}
}

// run works until the journal closes.
func (c *checkpointer) run(j *Journal) {
	defer close(c.done)
	for {
		select {
		case <-j.closing:
			return
		case <-c.wake:
			if err := c.shorten(j); isLost(sqlite.ErrCode(err)) {
				j.mu.Lock()
				_ = j.failed("checkpoint", err) // the next Append returns it
				j.mu.Unlock()
			}
			// Any other error means that there is no space. The log then grows, and is copied when there is room.
		}
	}
}

// shorten copies the log into the file if the log is long. SQLite starts the log from its beginning only when all of it
// is copied, and the writer goes on meanwhile. So the last few pages are copied while the writer waits. If the storage
// is slow at the moment, even a few pages and their sync take long. Then the writer does not wait: the log grows, and
// later checks try again, until the log is too long.
func (c *checkpointer) shorten(j *Journal) error {
	pages, copied, err := c.checkpoint("NOOP")
	if err != nil || pages-copied < logPages && pages < longLogPages {
		return err
	}
	for range 8 {
		if pages, copied, err = c.checkpoint("PASSIVE"); err != nil {
			return err
		}
		if pages-copied <= lastPages {
			break
		}
		// PASSIVE returns the length at its start. Check the writes since then.
		if pages, copied, err = c.checkpoint("NOOP"); err != nil {
			return err
		}
		if pages-copied <= lastPages {
			break
		}
	}
	if pages < longLogPages {
		began := time.Now()
		if pages, _, err = c.checkpoint("PASSIVE"); err != nil {
			return err
		}
		if time.Since(began) > slowCopy {
			return c.dropIdlePages()
		}
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	mode := "PASSIVE"
	if pages >= longLogPages {
		mode = "TRUNCATE"
	}
	if _, _, err = c.checkpoint(mode); err != nil {
		return err
	}
	return c.dropIdlePages()
}

// reserveCache is the cache of the checkpointer's connection, in bytes. The connection does not use it: it is a reserve
// for the others, see dropIdlePages.
const reserveCache = writerCache

// dropIdlePages makes room for the pages that the writer reads until the next checkpoint. SQLite keeps one list of idle
// pages for all connections of the process. A reader that has used up its own share takes pages of the writer, and the
// writer then allocates new ones. When the sum of all shares is used up, SQLite drops the next page that is put back,
// even if it is the root of a table, and keeps pages that are no longer used. Lowering one share for a moment makes
// SQLite drop those instead.
func (c *checkpointer) dropIdlePages() error {
	for _, size := range []int{reserveCache / 64, reserveCache} {
		if err := execute(c.conn, fmt.Sprintf("PRAGMA cache_size = -%d", size>>10)); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint runs a checkpoint. It returns how many pages the log holds and how many of them are copied into the file.
func (c *checkpointer) checkpoint(mode string) (pages, copied int, err error) {
	err = query(c.conn, fmt.Sprintf("PRAGMA wal_checkpoint(%s)", mode), nil, func(s *sqlite.Stmt) (bool, error) {
		pages, copied = s.ColumnInt(1), s.ColumnInt(2)
		return false, nil
	})
	return pages, copied, err
}
