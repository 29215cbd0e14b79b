package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal"
)

// putDocumentsText is one statement, so it happens whole or not at all. A document without a value is deleted.
const putDocumentsText = "WITH d AS (SELECT * FROM unnest($1::text[], $2::bytea[]) AS d (key, value))," +
	" gone AS (DELETE FROM {schema}.documents t USING d WHERE t.key = d.key AND d.value IS NULL)" +
	" INSERT INTO {schema}.documents (key, value) SELECT key, value FROM d WHERE value IS NOT NULL" +
	" ON CONFLICT (key) DO UPDATE SET value = excluded.value"

// PutDocuments implements journal.Documents. It may be repeated where a connection is lost, since the second time
// changes nothing.
func (s *storage) PutDocuments(ctx context.Context, documents ...journal.Document) error {
	if err := s.usable(true); err != nil {
		return err
	}
	keys, values := lastDocuments(documents)
	err := s.again(ctx, func(ctx context.Context) error {
		return s.query(ctx, s.in(putDocumentsText), []any{keys, values}, func(pgx.Rows) error { return nil })
	})
	return s.wrap("put documents", err)
}

// lastDocuments returns keys and values of documents, each key once with its last value: one statement can write a row
// only once.
func lastDocuments(documents []journal.Document) (keys []string, values [][]byte) {
	last := map[string]int{}
	for i, d := range documents {
		last[d.Key] = i
	}
	for i, d := range documents {
		if last[d.Key] == i {
			keys, values = append(keys, d.Key), append(values, d.Value)
		}
	}
	return keys, values
}

func (s *storage) FindDocuments(
	ctx context.Context, from, before string, last bool, limit int,
) ([]journal.Document, error) {
	order := ""
	if last {
		order = " DESC"
	}
	// A text here holds no zero byte, with which a bound behind a key ends.
	at, until := " >= ", " < "
	if key, behind := strings.CutSuffix(from, "\x00"); behind {
		from, at = key, " > "
	}
	if key, behind := strings.CutSuffix(before, "\x00"); behind {
		before, until = key, " <= "
	}
	text := "SELECT key, value FROM {schema}.documents WHERE key" + at + "$1 AND key" + until + "$2 ORDER BY key" +
		order + " LIMIT $3"
	return s.documents(ctx, "find documents", text, from, before, limit)
}

func (s *storage) ReadDocuments(ctx context.Context, keys ...string) ([]journal.Document, error) {
	text := "SELECT key, value FROM {schema}.documents WHERE key = ANY($1::text[]) ORDER BY key"
	return s.documents(ctx, "read documents", text, keys)
}

// documents returns what a query for documents finds.
func (s *storage) documents(ctx context.Context, op, text string, args ...any) (out []journal.Document, err error) {
	err = s.read(ctx, op, s.in(text), args, func() { out = nil }, func(r pgx.Rows) error {
		var d journal.Document
		if err := r.Scan(&d.Key, &d.Value); err != nil {
			return err
		}
		out = append(out, d)
		return nil
	})
	return out, err
}
