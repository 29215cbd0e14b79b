package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/journal"
)

var _ journal.Documents = (*Journal)(nil)

// documentTable was added to the format later, like feedTable. A Pawl that does not know it leaves it as it is.
const documentTable = `
CREATE TABLE IF NOT EXISTS documents (
	key   TEXT PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID`

// PutDocuments implements journal.Documents.
func (j *Journal) PutDocuments(ctx context.Context, documents ...journal.Document) error {
	return j.change(ctx, "put documents", func() (size int, err error) {
		for _, d := range documents {
			size += len(d.Key) + len(d.Value) + rowCost
			if err := j.w.putDocument(d); err != nil {
				return 0, err
			}
		}
		return size, nil
	})
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

// FindDocuments implements journal.Documents.
func (j *Journal) FindDocuments(
	ctx context.Context, from, before string, last bool, limit int,
) (out []journal.Document, err error) {
	err = j.read(ctx, func(c *conn) error {
		// A file that an older version wrote last has no such table until somebody opens it for writing.
		n, err := queryInt(c, "SELECT count(*) FROM sqlite_schema WHERE name = 'documents'")
		if err != nil || n == 0 {
			return err
		}
		order := ""
		if last {
			order = " DESC"
		}
		return query(c, "SELECT key, value FROM documents WHERE key >= ? AND key < ? ORDER BY key"+order+" LIMIT ?",
			func(s *sqlite.Stmt) {
				s.BindText(1, from)
				s.BindText(2, before)
				s.BindInt64(3, int64(limit))
			},
			func(s *sqlite.Stmt) (bool, error) {
				d := journal.Document{Key: s.ColumnText(0), Value: make([]byte, s.ColumnLen(1))}
				s.ColumnBytes(1, d.Value)
				out = append(out, d)
				return false, nil
			})
	})
	if err != nil {
		return nil, j.wrap("find documents", err)
	}
	return out, nil
}
