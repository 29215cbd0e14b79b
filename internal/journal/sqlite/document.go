package sqlite

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/journal"
)

// documentTable stores values beside the runs.
const documentTable = `
CREATE TABLE documents (
	key   TEXT PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID;
`

func (j *Journal) PutDocuments(ctx context.Context, documents ...journal.Document) error {
	return j.change(ctx, "put documents", func() (int, error) { return j.w.putDocuments(documents) })
}

// putDocuments stores and deletes documents. It returns about how many bytes that adds to the log.
func (w *writer) putDocuments(documents []journal.Document) (size int, err error) {
	for _, d := range documents {
		size += len(d.Key) + len(d.Value) + rowCost
		if err := w.putDocument(d); err != nil {
			return 0, err
		}
	}
	return size, nil
}

func (w *writer) putDocument(d journal.Document) error {
	text := "REPLACE INTO documents (key, value) VALUES (?1, ?2)"
	if d.Value == nil {
		text = "DELETE FROM documents WHERE key = ?1"
	}
	s, err := w.conn.stmt(text)
	if err != nil {
		return err
	}
	s.BindText(1, d.Key)
	if d.Value != nil {
		s.BindBytes(2, d.Value)
	}
	return do(s)
}

func (j *Journal) FindDocuments(
	ctx context.Context, from, before string, last bool, limit int,
) (out []journal.Document, err error) {
	order := ""
	if last {
		order = " DESC"
	}
	err = j.read(ctx, func(c *conn) error {
		return documents(c, &out, "key >= ?1 AND key < ?2 ORDER BY key"+order+" LIMIT ?3", func(s *sqlite.Stmt) {
			s.BindText(1, from)
			s.BindText(2, before)
			s.BindInt64(3, int64(limit))
		})
	})
	if err != nil {
		return nil, j.wrap("find documents", err)
	}
	return out, nil
}

func (j *Journal) ReadDocuments(ctx context.Context, keys ...string) (out []journal.Document, err error) {
	err = j.read(ctx, func(c *conn) error {
		for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
			if err := documents(c, &out, "key = ?1", func(s *sqlite.Stmt) { s.BindText(1, key) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, j.wrap("read documents", err)
	}
	return out, nil
}

// documents adds the documents for which a condition holds.
func documents(c *conn, out *[]journal.Document, where string, bind func(*sqlite.Stmt)) error {
	return query(c, "SELECT key, value FROM documents WHERE "+where, bind, func(s *sqlite.Stmt) (bool, error) {
		d := journal.Document{Key: s.ColumnText(0), Value: make([]byte, s.ColumnLen(1))}
		s.ColumnBytes(1, d.Value)
		*out = append(*out, d)
		return false, nil
	})
}
