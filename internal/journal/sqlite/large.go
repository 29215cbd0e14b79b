package sqlite

import (
	"encoding/binary"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// largeTable stores large entries, each once. Batches and pieces of history only refer to them. It is a table with a
// rowid: SQLite reads whole rows to find a place among the large rows of a table without one.
const largeTable = `
CREATE TABLE large_entries (
	id    INTEGER PRIMARY KEY, -- the batch's id << 9 | number among the batch's large entries
	run   BLOB NOT NULL,
	sum   INTEGER NOT NULL, -- CRC-32C of entry
	entry BLOB NOT NULL
);
CREATE INDEX large_entries_run ON large_entries (run);
`

// manyLarge is how many large entries of a batch are stored separately. The others are stored within the batch.
const (
	largeBits = 9
	manyLarge = 1 << largeBits
)

// refers is the first byte of a blob that refers to large entries. No entry begins with it. A number of references
// follows, then each reference: how many bytes of the rest are before the entry, and the entry's id. Then comes the
// rest.
const refers = 0

// reference represents a large entry that was from..to in a blob.
type reference struct {
	from, to int
	id       int64
}

// large are the writer's statements about large entries.
type large struct {
	insert, find, trim *sqlite.Stmt

	refs  []reference
	short []byte // the last result of shorten
}

func (l *large) prepare(c *conn) (err error) {
	for _, s := range []struct {
		stmt  **sqlite.Stmt
		query string
	}{
		{&l.insert, "INSERT INTO large_entries VALUES (?, ?, ?, ?)"},
		{&l.find, "SELECT id FROM large_entries WHERE id BETWEEN ? AND ?" +
			" AND run = ? AND sum = ? AND length(entry) = ?"},
		{&l.trim, "DELETE FROM large_entries WHERE id BETWEEN ? AND ? AND NOT EXISTS" +
			" (SELECT 1 FROM runs_data r WHERE r.id = large_entries.run)"},
	} {
		if *s.stmt, err = c.stmt(s.query); err != nil {
			return err
		}
	}
	return nil
}

// largeID returns the id of a batch's nth large entry.
func largeID(partition int, seq uint64, n int) int64 {
	return rowID(partition, seq)<<largeBits | int64(n)
}

// shorten replaces entries of a blob by references to them. The result is valid until the next call.
func (l *large) shorten(blob []byte) []byte {
	if len(l.refs) == 0 {
		return blob
	}
	out := binary.AppendUvarint(append(l.short[:0], refers), uint64(len(l.refs)))
	end, before := 0, 0
	for _, r := range l.refs {
		before += r.from - end
		out = binary.AppendUvarint(out, uint64(before))
		out = binary.AppendUvarint(out, uint64(r.id))
		end = r.to
	}
	end = 0
	for _, r := range l.refs {
		out = append(out, blob[end:r.from]...)
		end = r.to
	}
	l.short = append(out, blob[end:]...)
	return l.short
}

// storeLarge stores the large entries of a batch, and returns the batch's blob without them.
func (w *writer) storeLarge(b *journal.Batch, blob []byte, entries []journal.Large) ([]byte, error) {
	l := &w.large
	l.refs = l.refs[:0]
	if len(entries) == 0 {
		return blob, nil
	}
	for n, e := range entries[:min(len(entries), manyLarge)] {
		id, entry := largeID(b.Partition, b.Seq, n), blob[e.From:e.To]
		l.insert.BindInt64(1, id)
		l.insert.BindBytes(2, e.Run[:])
		l.insert.BindInt64(3, sum(entry))
		l.insert.BindBytes(4, entry)
		if err := do(l.insert); err != nil {
			return nil, err
		}
		l.refs = append(l.refs, reference{e.From, e.To, id})
	}
	return l.shorten(blob), nil
}

// referTo returns a piece of history without the large entries that are stored with their batches.
func (w *writer) referTo(partition int, h *journal.HistoryRow) ([]byte, error) {
	l := &w.large
	l.refs = l.refs[:0]
	for _, e := range h.Large {
		entry := h.Entries[e.From:e.To]
		l.find.BindInt64(1, largeID(partition, e.Seq, 0))
		l.find.BindInt64(2, largeID(partition, e.Seq, manyLarge-1))
		l.find.BindBytes(3, e.Run[:])
		l.find.BindInt64(4, sum(entry))
		l.find.BindInt64(5, int64(len(entry)))
		id, found, err := one(l.find)
		if err != nil {
			return nil, err
		}
		if found {
			l.refs = append(l.refs, reference{e.From, e.To, id})
		}
	}
	return l.shorten(h.Entries), nil
}

// trimLarge deletes large entries of deleted batches whose runs are gone, too. Those of other runs are in histories.
func (w *writer) trimLarge(partition int, first, last uint64) error {
	w.large.trim.BindInt64(1, largeID(partition, first, 0))
	w.large.trim.BindInt64(2, largeID(partition, last, manyLarge-1))
	return do(w.large.trim)
}

// pruneLarge deletes the large entries of runs that are deleted, except those that the journal still has. They are
// deleted together with their batches.
func (w *writer) pruneLarge(partition int, runs []core.RunID) error {
	first, err := w.conn.stmt("SELECT coalesce(min(id), 0) FROM journal WHERE id BETWEEN ? AND ?")
	if err != nil {
		return err
	}
	first.BindInt64(1, rowID(partition, 0))
	first.BindInt64(2, rowID(partition, seqMask))
	oldest, _, err := one(first)
	if err != nil {
		return err
	}
	drop, err := w.conn.stmt("DELETE FROM large_entries WHERE run = ? AND id < ?")
	if err != nil {
		return err
	}
	for i := range runs {
		drop.BindBytes(1, runs[i][:])
		drop.BindInt64(2, oldest<<largeBits)
		if err := do(drop); err != nil {
			return err
		}
	}
	return nil
}

// entries reads the columns sum and entries, like blob, unpacked and with the large entries that the blob refers to.
func (c *conn) entries(s *sqlite.Stmt, column int) ([]byte, error) {
	b, err := c.blob(s, column)
	if err == nil && len(b) > 0 && b[0] == packed {
		b, err = unpack(b)
	}
	if err != nil || len(b) == 0 || b[0] != refers {
		return b, err
	}
	refs, rest, err := readReferences(b[1:])
	if err != nil {
		return nil, err
	}
	var whole []byte
	end := 0
	for _, r := range refs {
		whole = append(whole, rest[end:r.from]...)
		end = r.from
		if whole, err = c.appendLarge(whole, r.id); err != nil {
			return nil, err
		}
	}
	return append(whole, rest[end:]...), nil
}

// readReferences decodes what shorten has written before the rest.
func readReferences(b []byte) (refs []reference, rest []byte, err error) {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = fmt.Errorf("%w: a reference is cut off", core.ErrBroken)
			return 0
		}
		b = b[n:]
		return v
	}
	for n := number(); n > 0 && err == nil; n-- {
		before, id := number(), number()
		refs = append(refs, reference{from: int(min(before, 1<<40)), id: int64(id)})
	}
	last := 0
	for _, r := range refs {
		if err == nil && (r.from < last || r.from > len(b)) {
			err = fmt.Errorf("%w: a reference is to byte %d of %d", core.ErrBroken, r.from, len(b))
		}
		last = r.from
	}
	return refs, b, err
}

// appendLarge appends a large entry to dst.
func (c *conn) appendLarge(dst []byte, id int64) ([]byte, error) {
	found := false
	err := query(c, "SELECT sum, entry FROM large_entries WHERE id = ?",
		func(s *sqlite.Stmt) { s.BindInt64(1, id) },
		func(s *sqlite.Stmt) (bool, error) {
			found = true
			entry, err := c.blob(s, 0)
			dst = append(dst, entry...)
			return true, err
		})
	if err == nil && !found {
		err = fmt.Errorf("%w: large entry %d is missing", core.ErrBroken, id)
	}
	if err != nil {
		return nil, fmt.Errorf("large entry %d: %w", id, err)
	}
	return dst, nil
}

// checkLarge reads every large entry. Each must belong to a run, or to a batch that the journal still has. The checks
// of the batches and histories make sure that everything to which they refer exists.
func checkLarge(c *conn, r *Report) error {
	const each = "SELECT l.id, r.id IS NOT NULL OR EXISTS (SELECT 1 FROM journal j WHERE j.id = l.id >> ?), l.run," +
		" l.sum, l.entry FROM large_entries l LEFT JOIN runs_data r ON r.id = l.run"
	return query(c, each, func(s *sqlite.Stmt) { s.BindInt64(1, largeBits) },
		func(s *sqlite.Stmt) (bool, error) {
			var run core.RunID
			id := s.ColumnInt64(0)
			s.ColumnBytes(2, run[:])
			if !s.ColumnBool(1) {
				r.problem("large entry %d is of run %s, which is not there", id, run)
			}
			if _, err := c.blob(s, 3); err != nil {
				r.problem("large entry %d of run %s: %v", id, run, err)
			}
			return false, nil
		})
}
