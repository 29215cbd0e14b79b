package sqlite

import (
	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/journal"
)

// toldTable stores the words of runs; see [journal.RunRow.Told]. It is a table of its own since most runs have none,
// and files of earlier versions get it when they are opened to be written.
const toldTable = `
CREATE TABLE IF NOT EXISTS told (
	run   BLOB PRIMARY KEY,
	words BLOB NOT NULL
) WITHOUT ROWID`

// toldOf is an expression for the words of the row r.
const toldOf = "(SELECT words FROM told WHERE run = r.id)"

// noTold gives a reader of a file of an earlier version an empty table.
const noTold = "CREATE TEMP TABLE IF NOT EXISTS told (run BLOB PRIMARY KEY, words BLOB NOT NULL)"

// told writes the words of runs. A new run without words has none to delete, and most end as such.
func (w *writer) told(v *journal.View) error {
	fresh := make(map[core.RunID]bool, len(v.New))
	for _, id := range v.New {
		fresh[id] = true
	}
	for i := range v.Runs {
		r := &v.Runs[i]
		s := w.addTold
		switch {
		case r.Told != "":
			s.BindBytes(2, []byte(r.Told))
		case fresh[r.ID]:
			continue
		default:
			s = w.dropTold
		}
		s.BindBytes(1, r.ID[:])
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// openWithTold opens a read-only connection. A file that no newer version has opened to be written has no words.
func openWithTold(path string) (*conn, error) {
	c, err := openReader(path)
	if err != nil {
		return nil, err
	}
	n, err := queryInt(c, "SELECT count(*) FROM sqlite_schema WHERE name = 'told'")
	if err == nil && n == 0 {
		err = execute(c, noTold)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
