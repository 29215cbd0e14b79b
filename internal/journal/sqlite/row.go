package sqlite

import (
	"strings"

	"zombiezen.com/go/sqlite"
)

// manyRows is how many rows one statement writes if there are that many. A statement that writes a single row spends
// more time on its own start and end, and on finding the place in the tree, than on the row.
const manyRows = 16

// rowStmt writes rows into a table, one or many at once.
type rowStmt struct {
	one, many *sqlite.Stmt
	columns   int
}

func (r *rowStmt) prepare(conn *conn, into string, columns int) (err error) {
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	r.columns = columns
	if r.one, err = conn.stmt(into + " VALUES " + row); err != nil {
		return err
	}
	r.many, err = conn.stmt(into + " VALUES " + row + strings.Repeat(", "+row, manyRows-1))
	return err
}

// writeRows writes rows. bind sets the values of one row, starting at the parameter after at.
func writeRows[T any](r *rowStmt, rows []T, bind func(s *sqlite.Stmt, at int, row *T) error) error {
	for len(rows) > 0 {
		s, n := r.one, 1
		if len(rows) >= manyRows {
			s, n = r.many, manyRows
		}
		for i := range n {
			if err := bind(s, i*r.columns, &rows[i]); err != nil {
				return err
			}
		}
		if err := do(s); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
