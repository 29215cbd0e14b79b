package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/journal"
)

// shapeText lists the results of the migrations, one line each in the form of shapeQuery. A test compares it with a new
// schema.
//
//go:embed migrations/shape.txt
var shapeText string

// shapeQuery reads the columns, constraints and indexes of a schema. A dump that was restored in part may lack some:
// everything seems to work without it, until two owners write the same batch.
const shapeQuery = `
SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
	|| CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname <> '` + versions + `'
UNION ALL
SELECT CASE o.contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique' WHEN 'f' THEN 'foreign key' ELSE 'check' END
	|| ' ' || c.relname || ' (' || (
		SELECT string_agg(a.attname, ', ' ORDER BY k.place)
		FROM unnest(o.conkey) WITH ORDINALITY AS k (number, place)
		JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number) || ')'
FROM pg_catalog.pg_constraint o
JOIN pg_catalog.pg_class c ON c.oid = o.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND o.contype IN ('p', 'u', 'f', 'c') AND o.convalidated
	AND c.relname <> '` + versions + `'
UNION ALL
SELECT 'index ' || x.relname || ' of ' || c.relname
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND i.indisvalid AND c.relname <> '` + versions + `'
	AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint o WHERE o.conindid = i.indexrelid)`

// shapeOf reads the columns, constraints and indexes that there are.
func shapeOf(ctx context.Context, s *storage) ([]string, error) {
	var lines []string
	err := s.read(ctx, "check", shapeQuery, []any{s.schema}, func() { lines = nil }, func(r pgx.Rows) error {
		var line string
		err := r.Scan(&line)
		lines = append(lines, line)
		return err
	})
	return lines, err
}

// missingIn lists what the schema should have and does not. An index that is missing makes lists slow; what else is
// missing makes results wrong.
func missingIn(ctx context.Context, s *storage) (parts, indexes []string, err error) {
	there, err := shapeOf(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(shapeText) {
		line = strings.TrimSpace(line)
		switch {
		case slices.Contains(there, line):
		case strings.HasPrefix(line, "index "):
			indexes = append(indexes, line)
		default:
			parts = append(parts, line)
		}
	}
	return parts, indexes, nil
}

// checkShape refuses a schema that lacks what the journal relies on.
func checkShape(ctx context.Context, s *storage) error {
	parts, _, err := missingIn(ctx, s)
	if err != nil || len(parts) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s lacks %s, as a dump that was restored in part does: restore it whole, "+
		"or make what is missing (pawl doctor lists it)", journal.ErrCorrupt, s.name, listed(parts))
}

// listed names the first of some parts, and how many more there are.
func listed(parts []string) string {
	const most = 3
	text := strings.Join(parts[:min(most, len(parts))], "; ")
	if more := len(parts) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// lacking returns what the schemas of all databases lack. Where that is more than indexes, nothing else can be looked
// at.
func (l *layout) lacking(ctx context.Context) (problems []string, partial bool, err error) {
	for _, s := range l.all {
		parts, indexes, err := missingIn(ctx, s)
		if err != nil {
			return nil, false, err
		}
		for _, part := range slices.Concat(parts, indexes) {
			problems = append(problems, "the schema lacks "+part)
		}
		partial = partial || len(parts) > 0
	}
	return problems, partial, nil
}
