package postgres

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/golden"
	"github.com/pawl-dev/pawl/internal/journal"
	"github.com/pawl-dev/pawl/internal/pgtest"
)

// TestShape checks that the list of what a schema has is that of a new schema.
func TestShape(t *testing.T) {
	j := opened(t, own(t, pgtest.Start(t)))
	lines, err := shapeOf(t.Context(), j.storage)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	text := strings.Join(lines, "\n") + "\n"
	if os.Getenv(golden.Write) != "" {
		if err := os.WriteFile("migrations/shape.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != shapeText {
		t.Errorf("a new schema has\n%s\nset %s to write migrations/shape.txt", text, golden.Write)
	}
}

// TestPartsAreMissing checks that a schema without a part that the journal relies on is not opened, and that doctor
// names all that is missing.
func TestPartsAreMissing(t *testing.T) {
	server := pgtest.Start(t)
	for _, c := range []struct {
		change, absent string
		opens          bool
	}{
		{"ALTER TABLE {schema}.journal DROP CONSTRAINT journal_pkey", "primary key journal (partition, seq)", false},
		{
			"ALTER TABLE {schema}.partitions DROP CONSTRAINT partitions_pkey",
			"primary key partitions (partition)", false,
		},
		{"ALTER TABLE {schema}.outbox DROP CONSTRAINT outbox_id_key", "unique outbox (id)", false},
		{"ALTER TABLE {schema}.pins DROP CONSTRAINT pins_node_fkey", "foreign key pins (node)", false},
		{"ALTER TABLE {schema}.journal ALTER sum DROP NOT NULL", "column journal.sum integer NOT NULL", false},
		{"ALTER TABLE {schema}.nodes DROP COLUMN reaches", "column nodes.reaches text NOT NULL", false},
		{"DROP TABLE {schema}.taken", "primary key taken (partition, sender)", false},
		{"DROP INDEX {schema}.runs_due", "index runs_due of runs_data", true},
	} {
		dsn := own(t, server)
		j := opened(t, dsn)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		execute(t, dsn, j.in(c.change))
		again, err := Open(t.Context(), dsn)
		switch {
		case err == nil:
			_ = again.Close()
			if !c.opens {
				t.Errorf("%s: it opens", c.change)
			}
		case c.opens:
			t.Errorf("%s: %v", c.change, err)
		default:
			refuses(t, c.change, err, journal.ErrCorrupt, "lacks")
		}
		look, err := OpenReadOnly(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		found, err := look.Inspect(t.Context())
		_ = look.Close()
		if err != nil || !slices.Contains(found.Problems, "the schema lacks "+c.absent) {
			t.Errorf("%s: %q, %v", c.change, found.Problems, err)
		}
	}
}
