package sqlite

import (
	"maps"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/journal"
)

// marked returns a partition's feeds with new positions.
func marked(feeds map[string]journal.Feed, changed []journal.Feed) map[string]journal.Feed {
	if len(changed) == 0 {
		return feeds
	}
	next := maps.Clone(feeds)
	if next == nil {
		next = map[string]journal.Feed{}
	}
	for _, f := range changed {
		if f.Removed {
			delete(next, f.Name)
		} else {
			next[f.Name] = f
		}
	}
	return next
}

// oldestOf returns the oldest position of the feeds that have not lapsed.
func oldestOf(feeds map[string]journal.Feed) (seq uint64, ok bool) {
	for _, f := range feeds {
		if !f.Lapsed && (!ok || f.Seq < seq) {
			seq, ok = f.Seq, true
		}
	}
	return seq, ok
}

// mark stores new positions of feeds.
func (w *writer) mark(partition int, feeds []journal.Feed) error {
	for _, f := range feeds {
		text := "REPLACE INTO feeds (partition, name, seq, lapsed) VALUES (?1, ?2, ?3, ?4)"
		if f.Removed {
			text = "DELETE FROM feeds WHERE partition = ?1 AND name = ?2"
		}
		s, err := w.conn.stmt(text)
		if err != nil {
			return err
		}
		s.BindInt64(1, int64(partition))
		s.BindText(2, f.Name)
		if !f.Removed {
			s.BindInt64(3, int64(f.Seq))
			s.BindBool(4, f.Lapsed)
		}
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// feedsOf reads the feeds of a partition that was acquired, and how much is kept for them.
func (w *writer) feedsOf(n int, p *partition, l *journal.Lease) error {
	err := query(w.conn, "SELECT name, seq, lapsed FROM feeds WHERE partition = ? ORDER BY name",
		func(s *sqlite.Stmt) { s.BindInt64(1, int64(n)) },
		func(s *sqlite.Stmt) (bool, error) {
			f := journal.Feed{Name: s.ColumnText(0), Seq: uint64(s.ColumnInt64(1)), Lapsed: s.ColumnBool(2)}
			l.Feeds = append(l.Feeds, f)
			return false, nil
		})
	if err != nil {
		return err
	}
	p.feeds = marked(nil, l.Feeds)
	oldest, ok := oldestOf(p.feeds)
	if !ok {
		return nil
	}
	return query(w.conn, "SELECT (SELECT total(length(entries)) FROM journal WHERE id > ?1 AND id <= ?2)"+
		" + (SELECT total(length(entry)) FROM large_entries WHERE id > ?3 AND id <= ?4)",
		func(s *sqlite.Stmt) {
			s.BindInt64(1, rowID(n, oldest))
			s.BindInt64(2, rowID(n, seqMask))
			s.BindInt64(3, largeID(n, oldest, manyLarge-1))
			s.BindInt64(4, largeID(n, seqMask, manyLarge-1))
		},
		func(s *sqlite.Stmt) (bool, error) { l.FeedBytes = s.ColumnInt64(0); return true, nil })
}
