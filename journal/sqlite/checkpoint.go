package sqlite

import (
	"fmt"
	"sync/atomic"

	"zombiezen.com/go/sqlite"
)

const (
	// logPages is how long the write-ahead log grows before it is folded into the file: 16 MiB.
	logPages = 16 << 20 / pageSize
	// longLogPages is a log that a held snapshot or a full disk has let grow, and that is cut down again.
	longLogPages = 4 * logPages
	// lastPages is how much may be left to fold while appends wait.
	lastPages = 512 << 10 / pageSize
	// wroteAtLeast is how many bytes are written between two looks at the log's length.
	wroteAtLeast = 4 << 20
)

// checkpointer folds the write-ahead log into the file, on a connection and a goroutine of its own: an append never
// does it, nor waits for more than its last few pages.
type checkpointer struct {
	conn    *conn
	poke    chan struct{}
	done    chan struct{}
	written atomic.Int64 // bytes since the last look, about
}

// wrote counts what a commit put into the log.
func (c *checkpointer) wrote(bytes int) {
	if c.written.Add(int64(bytes)) < wroteAtLeast {
		return
	}
	c.written.Store(0)
	select {
	case c.poke <- struct{}{}:
	default: // it is at work
	}
}

// run works until the journal closes.
func (c *checkpointer) run(j *Journal) {
	defer close(c.done)
	for {
		select {
		case <-j.closing:
			return
		case <-c.poke:
			if err := c.fold(j); isLost(sqlite.ErrCode(err)) {
				j.mu.Lock()
				_ = j.failed("checkpoint", err) // the next Append answers it
				j.mu.Unlock()
			}
			// Any other error is one of space: the log stays, grows, and is folded when there is room.
		}
	}
}

// fold folds the log where it is long. The writer goes on meanwhile, and a log starts over only when all of it is folded:
// so the last few pages are folded while the writer waits.
func (c *checkpointer) fold(j *Journal) error {
	pages, folded, err := c.checkpoint("NOOP")
	if err != nil || pages-folded < logPages && pages < longLogPages {
		return err
	}
	for range 8 {
		if pages, folded, err = c.checkpoint("PASSIVE"); err != nil {
			return err
		}
		if pages-folded <= lastPages {
			break
		}
		// PASSIVE reports what it found when it began; look again what has come since.
		if pages, folded, err = c.checkpoint("NOOP"); err != nil {
			return err
		}
		if pages-folded <= lastPages {
			break
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
	return c.slacken()
}

// slackCache is the cache of the checkpointer's connection, which has no use for it.
const slackCache = writerCache

// slacken makes room for the pages that the writer reads until the next fold. SQLite keeps one list of idle pages for all
// connections of the process: a reader whose own share is used up takes over the writer's pages, and the writer, whose
// share then is not used up, gets new ones. Beyond the sum of all shares SQLite drops the next page that is put back,
// be it a table's root, while the pages that nobody has asked for since stay. Lowering a share for a moment lets go of these.
func (c *checkpointer) slacken() error {
	for _, size := range []int{slackCache / 64, slackCache} {
		if err := execute(c.conn, fmt.Sprintf("PRAGMA cache_size = -%d", size>>10)); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint returns how many pages the log holds and how many of them are folded.
func (c *checkpointer) checkpoint(mode string) (pages, folded int, err error) {
	err = query(c.conn, fmt.Sprintf("PRAGMA wal_checkpoint(%s)", mode), nil, func(s *sqlite.Stmt) (bool, error) {
		pages, folded = s.ColumnInt(1), s.ColumnInt(2)
		return false, nil
	})
	return pages, folded, err
}
